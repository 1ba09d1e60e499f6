"""What reminders are about: one frozen value for each call. The session fills in what it knows and leaves out the rest."""

from typing import TYPE_CHECKING, Literal, TypeAlias

import msgspec

from foveal.context.reminders.loops import Repeated
from foveal.context.templates import Value

if TYPE_CHECKING:
    from foveal.summary.ledger.items import Todo

ReminderLevel: TypeAlias = Literal["info", "warning", "critical"]
CLOSED = frozenset(("completed", "done", "cancelled"))
"""What a todo's status says when nothing is left to do. Whatever else a model writes there is open."""


class Upload(msgspec.Struct, frozen=True):
    """A file that came since the last call."""

    name: str
    kind: str = ""
    size_bytes: int | None = None
    where: str = ""
    """The path or the reference by which it is read."""


class OneShot(msgspec.Struct, frozen=True):
    """A reminder in the host's own words, shown in one call."""

    id: str
    text: str


class Situation(msgspec.Struct, frozen=True, kw_only=True):
    """What is known when a prompt is built."""

    call: int
    """Which model call of the branch this is, counted from 1."""
    turn: int
    """Which turn of the user, counted from 1."""
    steps_left: int | None = None
    """Calls that the host still allows, this one included; None if it does not count them."""
    used_tokens: int = 0
    limit_tokens: int | None = None
    pressure: ReminderLevel | None = None
    todos: "tuple[Todo, ...]" = ()
    repeated: Repeated | None = None
    streak: int = 0
    """Tool calls since the user last said something."""
    uploads: tuple[Upload, ...] = ()
    mentioned_tools: tuple[str, ...] = ()
    mentioned_skills: tuple[str, ...] = ()
    mentioned_agents: tuple[str, ...] = ()
    suggested_skills: tuple[str, ...] = ()
    """Skills for files that came since the last call."""
    active_skill: str | None = None
    new_instructions: tuple[str, ...] = ()
    """Names of instructions that came or changed since the last call."""
    offered_tools: frozenset[str] = frozenset()
    one_shots: tuple[OneShot, ...] = ()
    facts: dict[str, Value] = {}
    """What the host knows; `fact:NAME` is the trigger of each."""
