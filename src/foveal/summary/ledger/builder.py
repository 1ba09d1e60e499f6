"""The ledger while it is being written: facts arrive one by one, and facts about the same thing become one item."""

from typing import TypeVar, assert_never

import msgspec
from msgspec.structs import replace

from foveal.summary.ledger import sections as bounds
from foveal.summary.ledger.events import (
    CheckPassed,
    Fact,
    QuestionAnswered,
    TaskFinished,
    TodoChange,
    TodoList,
)
from foveal.summary.ledger.items import (
    Child,
    Ledger,
    LedgerCommand,
    LedgerFailure,
    LedgerFile,
    LedgerItem,
    LedgerPlan,
    LedgerQuestion,
    Quote,
    Todo,
)
from foveal.summary.ledger.sections import Section
from foveal.text.calls.coverage import END, LineSpan

K = TypeVar("K", bound=LedgerItem)
_SECTIONS = ("files", "commands", "failures", "quotes", "questions", "children", "pending")
_CUT = (*_SECTIONS, "statements")
_MOST_SPANS = 8
_MOST_EARLIER = 3
_ABOUT_CHARS = 200
_TODO_CHARS = 400


class LedgerBuilder:
    """A mutable ledger, made from a ledger and turned into one. `ref` and `seq` are the message in which the arriving facts
    were found."""

    def __init__(self, ledger: Ledger) -> None:
        self.ref, self.seq = "", 0
        self.files = Section(((one.path, one) for one in ledger.files), bounds.FILES, bounds.rank_file)
        self.commands = Section(((one.text, one) for one in ledger.commands), bounds.COMMANDS, bounds.rank_command)
        self.failures = Section(((one.name, one) for one in ledger.failures), bounds.FAILURES, bounds.rank_failure)
        said = [(one.text, one) for one in ledger.quotes if one.is_statement]
        quoted = ((one.text, one) for one in ledger.quotes if not one.is_statement)
        self.statements = Section(said, bounds.STATEMENTS, bounds.rank_statement)
        self.quotes = Section(quoted, bounds.QUOTES, bounds.rank_quote)
        self.questions = Section(((one.text, one) for one in ledger.questions), bounds.QUESTIONS, bounds.rank_by_use)
        self.children = Section(((one.id, one) for one in ledger.children), bounds.CHILDREN, bounds.rank_by_use)
        self.pending = Section(((one.id, one) for one in ledger.pending), bounds.PENDING, lambda one: (one.seq,))
        self.todos, self.plan = ledger.todos, ledger.plan

    def add(self, fact: Fact) -> None:  # noqa: PLR0912 - one arm a kind of fact
        match fact:
            case LedgerFile():
                self._file(fact)
            case LedgerCommand():
                self._put(self.commands, fact.text, fact)
            case LedgerFailure():
                self._put(self.failures, fact.name, fact)
            case CheckPassed():
                self._passed(fact)
            case TodoList(items):
                self.todos = _fitting(items)
            case TodoChange():
                self.todos = _fitting(_changed(self.todos, fact))
            case LedgerPlan():
                self.plan = replace(fact, ref=self.ref, seq=self.seq)
            case Quote():
                self._quote(fact)
            case LedgerQuestion():
                self._put(self.questions, fact.text, fact)
            case QuestionAnswered():
                for key in list(self.questions.items):
                    self.questions.drop(key)
            case Child():
                self._put(self.children, fact.id, fact)
            case TaskFinished():
                self._finished(fact)
            case _:
                assert_never(fact)

    def cut(self) -> None:
        """Cut every section back to its bound. Called at the end of each message, so that the grouping of messages into
        updates has no effect."""
        for name in _CUT:
            getattr(self, name).cut()

    def ledger(self) -> Ledger:
        kept = {name: tuple(getattr(self, name).items.values()) for name in _SECTIONS}
        kept["quotes"] = (*kept["quotes"], *self.statements.items.values())
        return Ledger(todos=self.todos, plan=self.plan, **kept)

    def _put(self, section: Section[K], key: str, item: K) -> None:
        before = section.items.get(key)
        uses = before.uses + 1 if before else 1
        section.put(key, replace(item, ref=self.ref, seq=self.seq, uses=uses))

    def _file(self, file: LedgerFile) -> None:
        before = self.files.items.get(file.path)
        if before and not file.change:
            # Lines read before a change were other lines: only those read since are kept.
            file = replace(file, change=before.change, spans=_joined((*before.spans, *file.spans)))
        self._put(self.files, file.path, file)

    def _passed(self, passed: CheckPassed) -> None:
        for key, failure in list(self.failures.items.items()):
            is_meant = key == passed.name if passed.name else failure.command == passed.command
            if is_meant and not failure.resolved:
                self.failures.put(key, replace(failure, resolved=self.ref))

    def _quote(self, quote: Quote) -> None:
        if quote.by == "user" and not quote.about and self.questions.items and quote.whole:
            asked = max(self.questions.items.values(), key=lambda one: (one.seq, one.text))
            quote = replace(
                quote, about=asked.text[:_ABOUT_CHARS], why="decision" if quote.why == "said" else quote.why
            )
        if not quote.is_statement:
            self._put(self.quotes, quote.text, quote)
            return
        if before := self.statements.items.get(quote.text):
            quote = replace(quote, earlier=(*before.earlier, before.seq)[-_MOST_EARLIER:])
        self._put(self.statements, quote.text, quote)

    def _finished(self, finished: TaskFinished) -> None:
        self.children.drop(finished.id)
        running = (
            one for one in self.commands.items.values() if one.handle == finished.id and one.outcome == "running"
        )
        if finished.id and (command := next(running, None)):
            over = replace(command, outcome=finished.outcome, exit=finished.exit, error=finished.error, handle="")
            self.commands.put(command.text, replace(over, ref=self.ref, seq=self.seq))
            if finished.outcome == "ok":
                self._passed(CheckPassed(command=command.text))


def _joined(spans: tuple[LineSpan, ...]) -> tuple[LineSpan, ...]:
    """Return the spans in order, with touching ones joined; if there are too many, the last."""
    joined: list[LineSpan] = []
    for first, last in sorted(spans):
        if joined and first <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(last, joined[-1][1]))
        else:
            joined.append((first, min(last, END)))
    return tuple(joined[-_MOST_SPANS:])


def _changed(todos: tuple[Todo, ...], change: TodoChange) -> tuple[Todo, ...]:
    if all(one.id != change.id for one in todos):
        return (*todos, Todo(change.text, change.status or "pending", change.id)) if change.text else todos
    if change.status == "deleted":
        return tuple(one for one in todos if one.id != change.id)
    return tuple(
        Todo(change.text or one.text, change.status or one.status, one.id) if one.id == change.id else one
        for one in todos
    )


_DONE = frozenset(("completed", "done", "cancelled"))


def _fitting(todos: tuple[Todo, ...]) -> tuple[Todo, ...]:
    """Return the list, or, if it is too long to be carried, the list without done items, and then without its first items."""
    kept = [replace(one, text=one.text[:_TODO_CHARS]) if len(one.text) > _TODO_CHARS else one for one in todos]
    most, size = bounds.TODOS
    spare = sorted(range(len(kept)), key=lambda at: (kept[at].status not in _DONE, at))
    sizes = [len(msgspec.json.encode(one)) + 1 for one in kept]
    for at in spare:
        if len(kept) - sizes.count(0) <= most and sum(sizes) <= size:
            break
        sizes[at] = 0
    return tuple(one for one, worth in zip(kept, sizes, strict=True) if worth)
