"""The content of the next prompt: atoms, made of items, made of shown parts. Frozen values only.

An **item** is one message of the log as it is shown. An **atom** is a run of items that are folded together: a tool call
with all its results, or a single message, or a gap (a folded range with its stand-in). Nothing outside this module and
`project` has to look for orphans: an atom cannot be cut.
"""

import re
from collections.abc import Iterable
from functools import reduce
from typing import Literal, TypeAlias

import msgspec

from foveal.values.entry import Part, Role, Status

AtomKind: TypeAlias = Literal["system", "user", "assistant", "tools", "gap", "hidden"]

MESSAGE_TOKENS = 4
"""Framing of one message. OpenAI documents 3 and the role is one more; other providers are within a token of it."""

SYNTHETIC_RESULT = "[no result: the call was interrupted]"
"""Shown as the result of a call that has none. A constant, so that the prefix stays the same."""


CALL_ENDED: dict[Status, str] = {"error": "[the call failed]", "interrupted": "[the call was interrupted]"}
"""First line of a result whose call did not succeed, in formats that have no field for it."""


class Size(msgspec.Struct, frozen=True):
    """The three things that providers limit."""

    tokens: int = 0
    bytes: int = 0
    images: int = 0

    def __add__(self, other: "Size") -> "Size":
        return Size(self.tokens + other.tokens, self.bytes + other.bytes, self.images + other.images)

    def __sub__(self, other: "Size") -> "Size":
        return Size(self.tokens - other.tokens, self.bytes - other.bytes, self.images - other.images)

    def is_less_than(self, other: "Size") -> bool:
        """Return whether this size is an improvement: fewer tokens or images, or fewer bytes for no more tokens."""
        return (
            self.tokens < other.tokens
            or self.images < other.images
            or (self.bytes < other.bytes and self.tokens == other.tokens)
        )

    def within(self, other: "Size") -> bool:
        """Return whether no unit of this size exceeds the other."""
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
    floor: str = "covered"
    """The lowest level that retention lets it fall to."""
    ttl_turns: int | None = None
    """Number of user messages after which the part is due to be folded."""
    hint: str = ""
    """Advice for the model, shown with the reference."""


class Item(msgspec.Struct, frozen=True, omit_defaults=True):
    """One message as it is shown."""

    seq: int
    id: str
    role: Role
    shown: tuple[Shown, ...]
    model: str | None = None
    pinned: bool = False
    repair: str = ""
    """The change that was needed for a provider to accept the message; empty if none was."""
    folds: tuple[tuple[int, int], ...] = ()
    """The folds of its parts: the position of the mark in the log, and the number of the fold in it."""

    @property
    def is_silent(self) -> bool:
        """Whether no part of the message is shown."""
        return all(shown.part is None for shown in self.shown)

    @property
    def size(self) -> Size:
        frame = NOTHING if self.role == "tool" or self.is_silent else _FRAME
        seams = [JOINT] * (sum(shown.part is not None for shown in self.shown) - 1)
        return total((frame, *seams, *(shown.size for shown in self.shown)))


class ResultPlace(msgspec.Struct, frozen=True):
    """The place of a call's result: the item and the part inside the atom."""

    item: int
    part: int


class Atom(msgspec.Struct, frozen=True, omit_defaults=True):
    kind: AtomKind
    items: tuple[Item, ...]
    size: Size
    wire_ids: tuple[str, ...] = ()
    """One id per call of a `tools` atom: the provider's own where it is usable and unique in the view."""
    answers: tuple[ResultPlace | None, ...] = ()
    """One per call; None is a call without a result (yet)."""
    gap: "Gap | None" = None
    seam: Size = NOTHING
    """The share of `size` for a turn of the user that some providers require before a reply."""
    is_brought_back: bool = False
    """Whether a fold covers the atom and a pin shows it all the same."""

    @property
    def first(self) -> str:
        return self.gap.first if self.gap else self.items[0].id

    @property
    def last(self) -> str:
        return self.gap.last if self.gap else self.items[-1].id

    @property
    def newest(self) -> tuple[int, str]:
        """Position and id of the newest entry: a late result may be younger than the atoms after its own."""
        return self.gap.newest if self.gap else max((item.seq, item.id) for item in self.items)

    @property
    def pinned(self) -> bool:
        return any(item.pinned for item in self.items)

    @property
    def is_held(self) -> bool:
        """Whether a range fold leaves the atom out: a part is pinned, or its floor is above `covered`."""
        return self.pinned or any(shown.floor != "covered" for item in self.items for shown in item.shown)

    @property
    def raw_tokens(self) -> int:
        return self.gap.raw_tokens if self.gap else sum(shown.raw_tokens for item in self.items for shown in item.shown)


class Gap(msgspec.Struct, frozen=True, omit_defaults=True):
    """A folded range: its entries, their number, and the stand-in."""

    first: str
    last: str
    newest: tuple[int, str]
    entries: int
    raw_tokens: int
    text: str
    level: str
    policy: str
    because: str
    quotes: tuple[tuple[str, str], ...] = ()
    """Pinned passages of the covered entries, each with its entry; `text` holds them as they are shown."""
    fold: tuple[int, int] = (0, 0)
    """The fold that made it: the position of the mark in the log, and the number of the fold in it."""
    leads: bool = True
    """Whether it shows the text of that fold, rather than nothing because an earlier run of the range does."""
    span: tuple[int, int] = (0, 0)
    """Positions in the log of the first messages of its first and of its last atom."""


_FRAME = Size(MESSAGE_TOKENS, 24, 0)

JOINT = Size(2, 24)
"""Between two parts of one message: some formats join texts by a blank line, others frame each of them."""

# Ids that sessions and replays make themselves: 26 digits of base 32 or 16, all of them random.
_RANDOM_ID = re.compile(r"(?:[a-z2-7]{26}|[0-9a-f]{26})\Z")


def total(sizes: Iterable[Size]) -> Size:
    return reduce(Size.__add__, sizes, NOTHING)


def short_ref(entry_id: str, part: int = 0) -> str:
    """Return the name under which a folded part can be recalled; `foveal.recall` reads it."""
    # An id with a dot always names its part, so that the last dot of a reference is never one of the id's own.
    return entry_ref(entry_id) if part == 0 and "." not in entry_id else f"{entry_ref(entry_id)}.{part}"


def range_ref(first: str, last: str) -> str:
    return f"{entry_ref(first)}..{entry_ref(last)}"


def entry_ref(entry_id: str) -> str:
    """Return an id as references show it: ten characters of a random id, a caller's own id whole (those may begin alike)."""
    return entry_id[:10] if _RANDOM_ID.match(entry_id) else entry_id
