"""How much a stand-in may take, how that is counted, and what it should show first."""

from collections.abc import Callable
from typing import TypeAlias

import msgspec

CountTokens: TypeAlias = Callable[[str], int]


class Allowance(msgspec.Struct, frozen=True):
    """What a level is given besides the text."""

    tokens: int
    """The most that the stand-in may take."""
    count: CountTokens
    ref: str
    """The reference that the note of what was left out names."""
    focus: frozenset[str] = frozenset()
    """Identifiers, paths or words that were asked for or used since: lines that hold them are kept first."""
