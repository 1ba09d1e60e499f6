"""How far a text is believed.

What the host wrote itself speaks with authority; everything else is material. A mix is worth its least trusted source: a
summary of a system prompt and a web page is worth the web page.
"""

from typing import Final, Literal, TypeAlias

Trust: TypeAlias = Literal["system", "operator", "user", "tool", "recall", "summary", "child", "skill", "file"]

_RANK: Final[dict[Trust, int]] = {"system": 3, "operator": 2, "user": 1}
"""Whoever is not named here is only quoted: tools, files, skills, children, summaries and what was recalled are equals."""


def lowest(first: Trust, *others: Trust) -> Trust:
    """What a text made of these sources is worth; of equals, the first given."""
    return min((first, *others), key=_rank)


def is_trusted(trust: Trust) -> bool:
    """Whether its text may hold live frames: it comes from the host and nobody else."""
    return _rank(trust) >= _RANK["operator"]


def _rank(trust: Trust) -> int:
    return _RANK.get(trust, 0)
