"""What is kept of everything that was folded: lines, where they come from, and the names that were met. Bounded, plain data."""

from typing import Literal, TypeAlias

import msgspec

SourceKind: TypeAlias = Literal["result", "arguments", "replaced", "text", "user"]
"""Where a line stands: in a result, in what the agent wrote or took out by a call, in its words, in the user's words."""

SOURCES: tuple[SourceKind, ...] = ("result", "arguments", "replaced", "text", "user")


class SourceText(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A text that lines come from: one result, the arguments of one call, one text."""

    ref: str
    number: int
    """The message's place in the session."""
    source: SourceKind
    tool: str = ""
    """What the tool does (`read`, `shell`, …); empty if that is not known or there is none."""
    title: str = ""
    path: str = ""
    lines: int = 0


class SeenLine(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A line, or a piece of a long one, at the place where it was seen last."""

    text: str
    block: int
    at: int
    """Which line of its block, from 0."""
    number: int = 0
    """Which line of its file, from 1; 0 is not known."""
    count: int = 1
    """Messages in which it stood."""
    uses: int = 0
    """Calls in whose arguments it stood."""
    used: int = -1
    """The last of them."""
    before: bool = False
    after: bool = False
    """Whether its long line goes on before and after it."""


class SeenName(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """How often a name was met, if it was more than once or mattered to somebody."""

    text: str
    first: int
    last: int
    count: int
    """Messages in which it stood."""
    uses: int = 0
    """Calls in whose arguments it stood."""
    used: int = -1
    """The last of them."""
    asked: bool = False
    """Whether the user named it."""


class TouchedFile(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A file that calls went to."""

    path: str
    count: int
    last: int
    edits: int = 0
    edited: int = -1


class RelevanceState(msgspec.Struct, frozen=True):
    """All that later folds need of what was folded before."""

    blocks: tuple[SourceText, ...] = ()
    lines: tuple[SeenLine, ...] = ()
    names: tuple[SeenName, ...] = ()
    once: tuple[tuple[str, int], ...] = ()
    """Names that were met in one message only and stand in no kept line, and in which message."""
    files: tuple[TouchedFile, ...] = ()

    @property
    def newest(self) -> int:
        """The newest message that it knows of."""
        return max((*(block.number for block in self.blocks), *(name.last for name in self.names)), default=0)
