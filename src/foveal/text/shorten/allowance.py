"""The allowance of a stand-in: its size, the counter that measures it, and the terms that it should show first."""

from collections.abc import Callable
from typing import TypeAlias

import msgspec

from foveal.text.guard.neutral_text import neutralise_live

CountTokens: TypeAlias = Callable[[str], int]


class Allowance(msgspec.Struct, frozen=True):
    """Everything that a level is given besides the text."""

    tokens: int
    """Most tokens of the stand-in."""
    count: CountTokens
    ref: str
    """Reference for the note about the parts that were left out."""
    focus: frozenset[str] = frozenset()
    """Identifiers, paths or words that were asked for or used since: lines that hold them are kept first."""
    guard: Callable[[str], str] = neutralise_live
    """Breaks the forms that are live in the finished stand-in. What a level removes may have kept two halves apart."""


def share_out(sizes: list[int], room: int) -> int:
    """Return the largest limit per part whose sum fits `room`: smaller parts leave their rest to larger ones."""
    left = sorted(sizes)
    while left and left[0] * len(left) <= room:
        room -= left.pop(0)
    return room // len(left) if left else max(sizes, default=0)
