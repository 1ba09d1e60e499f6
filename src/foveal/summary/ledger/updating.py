"""From messages to facts: each message becomes events, each event is shown to every extractor."""

from collections.abc import Iterable, Iterator, Sequence

from foveal.summary.ledger.builder import Book
from foveal.summary.ledger.events import Began, Ended, Extractor, LedgerEvent, LedgerStep, SpokenWords
from foveal.summary.ledger.extractors import EXTRACTORS
from foveal.summary.ledger.file_effects import command_of, shown, tool_of, touches
from foveal.summary.ledger.items import Ledger, Pending
from foveal.summary.ledger.short_call import slim
from foveal.text.calls.read_tools import fields_of
from foveal.values.codec import sendable
from foveal.values.entry import Stored, Text, ToolCall, ToolResult

_ID_CHARS = 200


def update(ledger: Ledger, steps: Iterable[LedgerStep], extractors: Sequence[Extractor] = EXTRACTORS) -> Ledger:
    """The ledger with these messages taken in. They are never needed again: a call may be answered in a later update."""
    book = Book(ledger)
    for step in steps:
        book.ref, book.seq = step.ref, step.number
        for event in _events(step, book):
            for extract in extractors:
                for fact in extract(event):
                    book.add(fact)
        book.cut()
    return book.ledger()


def _events(step: LedgerStep, book: Book) -> Iterator[LedgerEvent]:
    message = step.message
    for at, part in enumerate(message.parts):
        match part:
            case Text(text) if text.strip():
                yield SpokenWords(message.role, sendable(text), is_last=at == len(message.parts) - 1)
            case ToolCall():
                yield _began(part, step, book)
            case ToolResult():
                yield _ended(part, book)
            case _:
                pass


def _began(call: ToolCall, step: LedgerStep, book: Book) -> Began:
    call = ToolCall(sendable(call.id)[:_ID_CHARS], sendable(call.name)[:_ID_CHARS], sendable(call.arguments))
    fields = fields_of(call)
    command = command_of(call, fields)
    touched = touches(call, command)
    carried, _ = slim(call, fields)
    book.pending.put(call.id, Pending(call.id, call.name, carried, command[:600], touched, step.ref, step.number))
    return Began(call.id, tool_of(call.name), fields, call.arguments, command, touched)


def _ended(result: ToolResult, book: Book) -> Ended:
    """An answer to a call that nobody knows is still an answer."""
    name = sendable(result.call)[:_ID_CHARS]
    call = book.pending.items.get(name)
    book.pending.drop(name)
    text = sendable("\n".join(_texts(result)))
    if call is None:
        return Ended(name, "", {}, "", (), (), text, result.status)
    fields = fields_of(ToolCall(call.id, call.name, call.arguments))
    touched = shown(call.touched, result)
    return Ended(name, tool_of(call.name), fields, call.command, call.touched, touched, text, result.status)


def _texts(result: ToolResult) -> Iterator[str]:
    for item in result.content:
        match item:
            case Text(text):
                yield text
            case Stored(_, _, _, head, tail):
                yield from (head, tail)
            case _:
                pass
