"""What the ledger holds: one small frozen value an item, each with where it came from, when it was last used and how often."""

from typing import Literal, TypeAlias

import msgspec

from foveal.text.calls.coverage import LineSpan

FileChange: TypeAlias = Literal["", "written", "edited", "deleted"]
CommandOutcome: TypeAlias = Literal["ok", "failed", "interrupted", "running"]
QuoteKind: TypeAlias = Literal["request", "rule", "decision", "said"]
QuoteAuthor: TypeAlias = Literal["user", "operator"]


class LedgerItem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Shared by all items. An extractor leaves these three alone; the ledger fills them in."""

    ref: str = ""
    """The entry that it was last seen in."""
    seq: int = 0
    """The place of that entry in the session."""
    uses: int = 1
    """In how many events it was seen."""


class LedgerFile(LedgerItem, frozen=True):
    path: str
    change: FileChange = ""
    """What was last done to it; empty if it was only read."""
    spans: tuple[LineSpan, ...] = ()
    """The lines that were read since it last changed; none if that cannot be told."""


class LedgerCommand(LedgerItem, frozen=True):
    text: str
    """Without what only trims its output, so that two runs of one command are one item."""
    outcome: CommandOutcome
    exit: int | None = None
    error: str = ""
    """The line that says what went wrong."""
    handle: str = ""
    """What a command that still runs is addressed by."""


class LedgerFailure(LedgerItem, frozen=True):
    """Something that went wrong and is open until `Passed` names it."""

    name: str
    """The test's id, or what was tried."""
    line: str = ""
    """What it said."""
    command: str = ""
    """The command that showed it, as its `Command.text`."""
    resolved: str = ""
    """Where it was seen passing."""


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
    """Whether this is all that was said in that message."""
    about: str = ""
    """The question that it answers."""
    by: QuoteAuthor = "user"
    """Who said it; the operator speaks in system messages and in the files that a harness hands over as instructions."""


class LedgerQuestion(LedgerItem, frozen=True):
    """What the model asked; gone as soon as somebody answers."""

    text: str


class LedgerName(LedgerItem, frozen=True, array_like=True, gc=False):
    """An identifier: a path, a dotted name, an id, a hash, a URL, a number with its label. Many: written without field names."""

    value: str
    label: str = ""
    acts: int = 0
    """In how many calls the model itself used it: what it used, it uses again."""


class Child(LedgerItem, frozen=True):
    """A sub-agent or a task in the background whose end has not been seen."""

    id: str
    text: str


class LedgerNote(LedgerItem, frozen=True):
    """Whatever an extractor of one's own wants carried; the newest of a section and key stands."""

    section: str
    key: str
    text: str


class PendingCall(msgspec.Struct, frozen=True, omit_defaults=True):
    """A call whose result has not come: what extractors need of it when it does."""

    id: str
    name: str
    arguments: str
    command: str
    touched: tuple[LedgerFile, ...]
    ref: str
    seq: int


class Ledger(msgspec.Struct, frozen=True, omit_defaults=True):
    """The state of a session so far. See `foveal.summary.ledger` for what may be done with it."""

    files: tuple[LedgerFile, ...] = ()
    commands: tuple[LedgerCommand, ...] = ()
    failures: tuple[LedgerFailure, ...] = ()
    todos: tuple[Todo, ...] = ()
    plan: LedgerPlan | None = None
    quotes: tuple[Quote, ...] = ()
    questions: tuple[LedgerQuestion, ...] = ()
    names: tuple[LedgerName, ...] = ()
    children: tuple[Child, ...] = ()
    notes: tuple[LedgerNote, ...] = ()
    pending: tuple[PendingCall, ...] = ()


EMPTY = Ledger()
