"""The relevance state: folded lines, their sources, and the names in them. Bounded, plain data."""

from typing import Literal, TypeAlias

import msgspec

SourceKind: TypeAlias = Literal["result", "arguments", "replaced", "text", "user"]
"""Where a line occurred: in a result, in arguments that the agent wrote, in text that an edit removed, in the agent's
words, in the user's words."""

SOURCES: tuple[SourceKind, ...] = ("result", "arguments", "replaced", "text", "user")


class SourceText(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A text that lines come from: one result, the arguments of one call, one text."""

    ref: str
    number: int
    """The message's place in the session."""
    source: SourceKind
    tool: str = ""
    """Kind of the tool (`read`, `shell`, …); empty if it is not known or there is no tool."""
    title: str = ""
    path: str = ""
    lines: int = 0


class SeenLine(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A line, or a piece of a long one, at the place where it was seen last."""

    text: str
    block: int
    at: int
    """Number of the line in its block, from 0."""
    number: int = 0
    """Number of the line in its file, from 1; 0 if unknown."""
    count: int = 1
    """Number of messages with this line."""
    uses: int = 0
    """Number of calls with this line in their arguments."""
    used: int = -1
    """The last of these calls."""
    before: bool = False
    after: bool = False
    """Whether its long line continues before and after this piece."""


class SeenName(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A name that was met in several messages, or used in a call, or mentioned by the user."""

    text: str
    first: int
    last: int
    count: int
    """Number of messages with this name."""
    uses: int = 0
    """Number of calls with this name in their arguments."""
    used: int = -1
    """The last of these calls."""
    asked: bool = False
    """Whether the user named it."""


class TouchedFile(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A file that calls touched."""

    path: str
    count: int
    last: int
    edits: int = 0
    edited: int = -1


class RelevanceState(msgspec.Struct, frozen=True):
    """Everything that later folds need of the messages that were folded before."""

    blocks: tuple[SourceText, ...] = ()
    lines: tuple[SeenLine, ...] = ()
    names: tuple[SeenName, ...] = ()
    once: tuple[tuple[str, int], ...] = ()
    """Names that were met in one message only and are in no kept line, with that message."""
    files: tuple[TouchedFile, ...] = ()

    @property
    def newest(self) -> int:
        """The newest message with a line or a name in the state."""
        return max((*(block.number for block in self.blocks), *(name.last for name in self.names)), default=0)
