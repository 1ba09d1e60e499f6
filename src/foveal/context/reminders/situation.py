"""The situation that reminders are evaluated for: one frozen value per call. Fields that are not known keep their defaults."""

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec

from foveal.context.reminders.loops import Repeated
from foveal.context.templates import Value
from foveal.values.entry import Message, News

if TYPE_CHECKING:
    from foveal.summary.ledger.items import Todo

ReminderLevel: TypeAlias = Literal["info", "warning", "critical"]
CLOSED = frozenset(("completed", "done", "cancelled"))
"""Statuses of a todo that is finished. A todo with any other status is open."""


class Upload(msgspec.Struct, frozen=True):
    """A file that was attached since the last call."""

    name: str
    kind: str = ""
    size_bytes: int | None = None
    where: str = ""
    """The path or the reference by which it is read."""


class OneShot(msgspec.Struct, frozen=True):
    """A reminder in the host's own words, shown in one call."""

    id: str
    text: str


_NEWS: Mapping[str, Callable[..., Any]] = {
    "one_shots": OneShot,
    "uploads": Upload,
    "suggested_skills": str,
    "new_instructions": str,
}
"""The fields of a situation whose facts are news, with the type of their values."""


RecordedAfter: TypeAlias = Callable[[int], Iterable[tuple[int, Message]]]
"""Reads the messages of the branch after a position of the log, each with its position."""


def nothing_recorded(_after: int) -> Iterable[tuple[int, Message]]:
    """Read nothing: the view of a new session."""
    return ()


def news_mark(field: str, values: Iterable[Upload | OneShot | str]) -> News:
    """Return the entry that keeps these facts for the next call."""
    return News(field, tuple((one,) if isinstance(one, str) else msgspec.structs.astuple(one) for one in values))


def news_in(marks: Iterable[News]) -> dict[str, tuple[object, ...]]:
    """Return the facts of these entries by field, each once. Fields that no situation has are left out."""
    found: dict[str, dict[object, None]] = {}
    for mark in marks:
        make = _NEWS.get(mark.field)
        if make is not None:
            found.setdefault(mark.field, {}).update((make(*row), None) for row in mark.rows)
    return {field: tuple(values) for field, values in found.items()}


class Situation(msgspec.Struct, frozen=True, kw_only=True):
    """The facts that are known when a prompt is built."""

    call: int
    """The number of the model call in its branch, counted from 1."""
    turn: int
    """The number of the user's turn, counted from 1."""
    steps_left: int | None = None
    """Calls that the host still allows, this one included; None if the host does not count them."""
    used_tokens: int = 0
    limit_tokens: int | None = None
    pressure: ReminderLevel | None = None
    todos: "tuple[Todo, ...]" = ()
    repeated: Repeated | None = None
    streak: int = 0
    """Tool calls since the last message of the user."""
    uploads: tuple[Upload, ...] = ()
    mentioned_tools: tuple[str, ...] = ()
    mentioned_skills: tuple[str, ...] = ()
    mentioned_agents: tuple[str, ...] = ()
    suggested_skills: tuple[str, ...] = ()
    """Skills for files that were attached since the last call."""
    active_skill: str | None = None
    new_instructions: tuple[str, ...] = ()
    """Names of instructions that are new or changed since the last call."""
    offered_tools: frozenset[str] = frozenset()
    one_shots: tuple[OneShot, ...] = ()
    facts: dict[str, Value] = {}
    """Facts of the host; `fact:NAME` is the trigger of each."""
