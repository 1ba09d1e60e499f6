"""What may stand beside the conversation of a session, as its session sees it.

Most sessions have nothing there, and pay for nothing: `Alone` answers for them, and all that fences, reminders, tools on demand,
skills and instructions are made of is loaded by the first session that has a use for one of them (`company`).
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

import msgspec

from foveal.project.view import View
from foveal.values.entry import Entry, Fence, Message, PromptContext, ToolCall
from foveal.values.errors import OverBudget
from foveal.values.events import Pressure
from foveal.values.trace import TraceLine

Value: TypeAlias = str | int
Tools: TypeAlias = Sequence[Mapping[str, Any]]


class Injection(NamedTuple):
    """What stands beside one prompt, and a line of the trace for each of it and for everything that was held back."""

    beside: PromptContext
    lines: tuple[TraceLine, ...] = ()
    tokens: int = 0
    mandatory: int = 0
    """What of it may not be cut."""
    expired: tuple[Fence, ...] = ()
    """Fences whose time has passed; the lines say so, and the view need not keep them."""


NOTHING = Injection(PromptContext(()))

ROOMS = (1.0, 0.5, 0.2, 0.0)
"""Shares of the room that may be taken by what can be cut, from all of it down to none, until the rest fits beside it."""


class Host(msgspec.Struct, frozen=True, kw_only=True):
    """What the host knows of the next call and nobody else does."""

    steps_left: int | None = None
    facts: dict[str, Value] = {}


class Company(Protocol):
    """Whatever stands beside a conversation and follows it."""

    def follow(self, view: View) -> None:
        """Begin with a session that is there already."""
        ...

    def heard(self, seq: int, entry: Entry) -> None:
        """Take an entry into account."""
        ...

    def tools(self, given: Tools, limit: int) -> Tools:
        """The host's tools, with those that come from elsewhere."""
        ...

    def due(self, view: View) -> Iterable[Fence]:
        """What must be put beside the conversation before the next prompt."""
        ...

    def beside(self, view: View, pressure: Pressure, host: Host, offered: frozenset[str], *, room: float) -> Injection:
        """What the next prompt holds beside the conversation; what may be cut takes no more than this share of the room."""
        ...

    def answer(self, call: ToolCall) -> Message | None:
        """The result of a call to a tool of the company's own; None for other calls."""
        ...

    def sent(self) -> None:
        """The call was prepared: what is new is new until it is answered."""
        ...


class Alone:
    """A conversation with nothing beside it."""

    def follow(self, view: View) -> None: ...

    def heard(self, seq: int, entry: Entry) -> None: ...

    def tools(self, given: Tools, limit: int) -> Tools:
        return given

    def due(self, view: View) -> Iterable[Fence]:
        return ()

    def beside(self, view: View, pressure: Pressure, host: Host, offered: frozenset[str], *, room: float) -> Injection:
        return NOTHING

    def answer(self, call: ToolCall) -> Message | None:
        return None

    def sent(self) -> None: ...


def with_fences(error: OverBudget, tokens: int) -> OverBudget:
    """The error with the fences that must be kept among its parts."""
    if not tokens or error.unit != "tokens":
        return error
    return OverBudget(error.limit + tokens, {"fences": tokens, **error.parts})
