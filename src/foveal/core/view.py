"""What the next prompt would show: atoms, made of items, made of shown parts. Frozen values only.

An **item** is one message of the log as it is shown. An **atom** is a run of items that stand or fall together: a tool call
with all its results, or a single message, or a gap (a folded range with its stand-in). Nothing outside this module and
`project` has to look for orphans: an atom cannot be cut.
"""

from collections.abc import Iterable
from functools import reduce
from typing import Literal, TypeAlias

import msgspec

from foveal.core.entry import Part, Role

AtomKind: TypeAlias = Literal["system", "user", "assistant", "tools", "gap", "hidden"]

MESSAGE_TOKENS = 4
"""Framing of one message. OpenAI documents 3 and the role is one more; other providers are within a token of it."""

SYNTHETIC_RESULT = "[no result: the call was interrupted]"
"""Stands for the result that never came. A constant, so that the prefix stays the same."""


class Size(msgspec.Struct, frozen=True):
    """The three things that providers limit."""

    tokens: int = 0
    bytes: int = 0
    images: int = 0

    def __add__(self, other: "Size") -> "Size":
        return Size(self.tokens + other.tokens, self.bytes + other.bytes, self.images + other.images)

    def __sub__(self, other: "Size") -> "Size":
        return Size(self.tokens - other.tokens, self.bytes - other.bytes, self.images - other.images)

    def within(self, other: "Size") -> bool:
        return self.tokens <= other.tokens and self.bytes <= other.bytes and self.images <= other.images


NOTHING = Size()


class Shown(msgspec.Struct, frozen=True, omit_defaults=True):
    """One part as it is shown: itself, or its stand-in, or not at all (`part` is None)."""

    part: Part | None
    size: Size
    raw_tokens: int
    level: str = "full"
    policy: str = ""
    because: str = ""


class Item(msgspec.Struct, frozen=True, omit_defaults=True):
    """One message as it is shown."""

    seq: int
    id: str
    role: Role
    shown: tuple[Shown, ...]
    model: str | None = None
    pinned: bool = False
    repair: str = ""
    """What had to be done to it so that a provider accepts it."""

    @property
    def size(self) -> Size:
        frame = NOTHING if self.role == "tool" or all(s.part is None for s in self.shown) else _FRAME
        return total((frame, *(shown.size for shown in self.shown)))


class Answer(msgspec.Struct, frozen=True):
    """Where a call's result is: the item and the part inside the atom."""

    item: int
    part: int


class Atom(msgspec.Struct, frozen=True, omit_defaults=True):
    kind: AtomKind
    items: tuple[Item, ...]
    size: Size
    wire_ids: tuple[str, ...] = ()
    """One id per call of a `tools` atom: the provider's own where it is usable and unique in the view."""
    answers: tuple[Answer | None, ...] = ()
    """One per call; None is a call that nobody has answered (yet)."""
    gap: "Gap | None" = None

    @property
    def first(self) -> str:
        return self.gap.first if self.gap else self.items[0].id

    @property
    def last(self) -> str:
        return self.gap.last if self.gap else self.items[-1].id

    @property
    def pinned(self) -> bool:
        return any(item.pinned for item in self.items)

    @property
    def raw_tokens(self) -> int:
        return self.gap.raw_tokens if self.gap else sum(shown.raw_tokens for item in self.items for shown in item.shown)


class Gap(msgspec.Struct, frozen=True):
    """A folded range: which entries, how many, and what is shown instead."""

    first: str
    last: str
    entries: int
    raw_tokens: int
    text: str
    level: str
    policy: str
    because: str


_FRAME = Size(MESSAGE_TOKENS, 24, 0)


def total(sizes: Iterable[Size]) -> Size:
    return reduce(Size.__add__, sizes, NOTHING)


def short_ref(entry_id: str, part: int = 0) -> str:
    """The name under which a folded part can be recalled. Ids are random, so the first ten characters tell them apart."""
    return entry_id[:10] if part == 0 else f"{entry_id[:10]}.{part}"


def range_ref(first: str, last: str) -> str:
    return f"{first[:10]}..{last[:10]}"
