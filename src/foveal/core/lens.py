"""What a log is looked at through."""

from collections.abc import Callable
from typing import TypeAlias

import msgspec

from foveal.core.entry import Part
from foveal.core.measure import Measure

Hides: TypeAlias = Callable[[Part, str | None], str]
"""Why the dialect will not send this part, written by this model; empty if it will."""


class Lens(msgspec.Struct, frozen=True):
    """What the log is looked at through: what the provider can take, how it counts, and what is pinned."""

    key: str
    measure: Measure
    hides: Hides
    pins: frozenset[str] = frozenset()
