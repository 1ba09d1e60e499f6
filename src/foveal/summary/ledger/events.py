"""Events that extractors receive, and facts that they yield.

An extractor is one callable: it takes an event (a speech, the beginning or the end of a call) and yields facts. Facts are
the ledger's own items, or one of the few changes below. An extractor keeps nothing between events; the ledger does.

    def tickets(event: LedgerEvent) -> Iterator[Fact]:
        if isinstance(event, CallEnded) and event.tool == "createticket":
            yield Child(id=event.text, text="a ticket that nobody has closed")

    update(ledger, steps, (*EXTRACTORS, tickets))
"""

from collections.abc import Callable, Iterable
from typing import TypeAlias

import msgspec

from foveal.summary.ledger.items import (
    Child,
    CommandOutcome,
    LedgerCommand,
    LedgerFailure,
    LedgerFile,
    LedgerPlan,
    LedgerQuestion,
    Quote,
    Todo,
)
from foveal.text.calls.read_tools import CallArguments
from foveal.values.entry import Message, Role, Status


class LedgerStep(msgspec.Struct, frozen=True):
    """One message that is folded: the original, never a stand-in."""

    ref: str
    message: Message
    number: int
    """Its place in the session."""


class SpokenWords(msgspec.Struct, frozen=True):
    """Words of the user, the model or the system."""

    role: Role
    text: str
    is_last: bool
    """Whether these words end the message: no call follows."""


class CallBegan(msgspec.Struct, frozen=True):
    """A tool was called."""

    id: str
    tool: str
    """Name of the tool without server, case, dashes and underscores."""
    fields: CallArguments
    """The arguments, by names squeezed like the tool's."""
    arguments: str
    command: str
    """The shell command, if the call is one."""
    touched: tuple[LedgerFile, ...]
    """The files that the call is about to read or change."""


class CallEnded(msgspec.Struct, frozen=True):
    """A tool answered. Long arguments are cut by now: an extractor that needs them whole reads them in `CallBegan`."""

    id: str
    tool: str
    fields: CallArguments
    command: str
    asked: tuple[LedgerFile, ...]
    """The files that the call was about to touch."""
    touched: tuple[LedgerFile, ...]
    """The files that the call did touch, with the lines that were shown; none if it failed."""
    text: str
    status: Status


LedgerEvent: TypeAlias = SpokenWords | CallBegan | CallEnded


class CheckPassed(msgspec.Struct, frozen=True):
    """Evidence that a test passes, by its id, or that everything passes that a command tests."""

    name: str = ""
    command: str = ""


class TodoList(msgspec.Struct, frozen=True):
    """The whole list, which replaces the one before."""

    items: tuple[Todo, ...]


class TodoChange(msgspec.Struct, frozen=True):
    """A change of one item of the list, by its id; the status "deleted" removes it."""

    id: str
    text: str = ""
    status: str = ""


class QuestionAnswered(msgspec.Struct, frozen=True):
    """The user answered: no question is open any more."""


class TaskFinished(msgspec.Struct, frozen=True):
    """A child, or a command in the background, came to its end."""

    id: str
    outcome: CommandOutcome = "ok"
    exit: int | None = None
    error: str = ""


Fact: TypeAlias = (
    LedgerFile
    | LedgerCommand
    | LedgerFailure
    | CheckPassed
    | TodoList
    | TodoChange
    | LedgerPlan
    | Quote
    | LedgerQuestion
    | QuestionAnswered
    | Child
    | TaskFinished
)


Extractor: TypeAlias = Callable[[LedgerEvent], Iterable[Fact]]
