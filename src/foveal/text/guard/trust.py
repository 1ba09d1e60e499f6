"""Trust: how far a text is believed.

A text of the host speaks with authority; every other text is material.
"""

from typing import Final, Literal, TypeAlias

Trust: TypeAlias = Literal["system", "operator", "user", "tool", "recall", "summary", "child", "skill", "file"]

_RANK: Final[dict[Trust, int]] = {"system": 3, "operator": 2, "user": 1}
"""Ranks of those who may give instructions. All others are only quoted: tools, files, skills, children, summaries and
recalled texts are equals."""


def is_trusted(trust: Trust) -> bool:
    """Return whether a text of this trust may hold live frames: it comes from the host alone."""
    return _rank(trust) >= _RANK["operator"]


def _rank(trust: Trust) -> int:
    return _RANK.get(trust, 0)
