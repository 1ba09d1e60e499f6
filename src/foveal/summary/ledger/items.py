"""Items of the ledger: small frozen values, each with its source, the time of its last use and the number of uses."""

from typing import Literal, TypeAlias

import msgspec

from foveal.text.calls.coverage import LineSpan

FileChange: TypeAlias = Literal["", "written", "edited", "deleted"]
CommandOutcome: TypeAlias = Literal["ok", "failed", "interrupted", "running"]
QuoteKind: TypeAlias = Literal["request", "rule", "decision", "said"]
QuoteAuthor: TypeAlias = Literal["user", "operator"]


STATEMENT_CHARS = 400
"""Length of a message that is quoted whole: people type shorter ones and paste longer ones."""


class LedgerItem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Fields of all items. Extractors leave these three alone; the ledger fills them in."""

    ref: str = ""
    """The entry that it was last seen in."""
    seq: int = 0
    """The place of that entry in the session."""
    uses: int = 1
    """Number of events in which it was seen."""


class LedgerFile(LedgerItem, frozen=True):
    path: str
    change: FileChange = ""
    """The last change; empty if the file was only read."""
    spans: tuple[LineSpan, ...] = ()
    """The lines that were read since the last change; none if they are not known."""


class LedgerCommand(LedgerItem, frozen=True):
    text: str
    """The command without filters that only trim its output, so that two runs of one command are one item."""
    outcome: CommandOutcome
    exit: int | None = None
    error: str = ""
    """The line that reports the error."""
    handle: str = ""
    """The id of a command that still runs."""


class LedgerFailure(LedgerItem, frozen=True):
    """A failure, open until a `CheckPassed` names it."""

    name: str
    """The test's id, or the act that failed."""
    line: str = ""
    """The error message."""
    command: str = ""
    """The command that showed it, as its `LedgerCommand.text`."""
    resolved: str = ""
    """The entry in which it was seen passing."""


class Todo(msgspec.Struct, frozen=True, omit_defaults=True):
    text: str
    status: str = "pending"
    id: str = ""


class LedgerPlan(LedgerItem, frozen=True):
    text: str
    whole: bool = True


class Quote(LedgerItem, frozen=True):
    """The user's own words, or the operator's, to the byte."""

    text: str
    why: QuoteKind = "said"
    whole: bool = True
    """Whether the quote is the whole message."""
    about: str = ""
    """The question that it answers."""
    by: QuoteAuthor = "user"
    """The speaker; the operator speaks in system messages and in the files that a harness hands over as instructions."""
    pasted: bool = False
    """Whether it is of a message that is bulk for the most part: a log, a document, a list."""

    earlier: tuple[int, ...] = ()
    """The places of the newest messages before with the same words."""

    @property
    def is_statement(self) -> bool:
        """Whether the user said just this: a short message in their own words, or an answer."""
        return self.whole and self.by == "user" and len(self.text) <= STATEMENT_CHARS


class LedgerQuestion(LedgerItem, frozen=True):
    """A question of the model; removed as soon as the user answers."""

    text: str


class Child(LedgerItem, frozen=True):
    """A sub-agent or a task in the background whose end has not been seen."""

    id: str
    text: str


class PendingCall(msgspec.Struct, frozen=True, omit_defaults=True):
    """A call without a result yet, with the data that extractors need when the result comes."""

    id: str
    name: str
    arguments: str
    command: str
    touched: tuple[LedgerFile, ...]
    ref: str
    seq: int


class Ledger(msgspec.Struct, frozen=True, omit_defaults=True):
    """The facts of a session up to now. `foveal.summary.ledger` has the functions on it."""

    files: tuple[LedgerFile, ...] = ()
    commands: tuple[LedgerCommand, ...] = ()
    failures: tuple[LedgerFailure, ...] = ()
    todos: tuple[Todo, ...] = ()
    plan: LedgerPlan | None = None
    quotes: tuple[Quote, ...] = ()
    questions: tuple[LedgerQuestion, ...] = ()
    children: tuple[Child, ...] = ()
    pending: tuple[PendingCall, ...] = ()


EMPTY = Ledger()
