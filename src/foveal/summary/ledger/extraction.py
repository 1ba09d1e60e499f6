"""Extraction of facts from messages: each message becomes events, and every extractor sees each event."""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, cast

from foveal.summary.ledger.builder import LedgerBuilder
from foveal.summary.ledger.events import CallBegan, CallEnded, Extractor, LedgerEvent, LedgerStep, SpokenWords
from foveal.summary.ledger.extractors import EXTRACTORS
from foveal.summary.ledger.file_effects import command_of, confirmed_files, touched_files
from foveal.summary.ledger.items import Ledger, PendingCall
from foveal.text.calls.read_tools import CallArguments, bare_name, fields_of
from foveal.text.stand_in import content_texts
from foveal.values.codec import sendable
from foveal.values.entry import Text, ToolCall, ToolResult

_ID_CHARS = 200
_WHOLE_CHARS, _VALUE_CHARS, _MOST_FIELDS = 700, 300, 12


def update(ledger: Ledger, steps: Iterable[LedgerStep], extractors: Sequence[Extractor] = EXTRACTORS) -> Ledger:
    """Return the ledger with the facts of these messages. They are never needed again: a call may be answered in a later
    update."""
    builder = LedgerBuilder(ledger)
    for step in steps:
        take_step(builder, step, extractors)
    return builder.ledger()


def take_step(builder: LedgerBuilder, step: LedgerStep, extractors: Sequence[Extractor] = EXTRACTORS) -> None:
    """Add the facts of one message to a ledger that is being built."""
    builder.ref, builder.seq = step.ref, step.number
    for event in _events(step, builder):
        for extract in extractors:
            for fact in extract(event):
                builder.add(fact)
    builder.cut()


def _events(step: LedgerStep, builder: LedgerBuilder) -> Iterator[LedgerEvent]:
    message = step.message
    for at, part in enumerate(message.parts):
        match part:
            case Text(text) if text.strip():
                yield SpokenWords(message.role, sendable(text), is_last=at == len(message.parts) - 1)
            case ToolCall():
                yield _began(part, step, builder)
            case ToolResult():
                yield _ended(part, builder)
            case _:
                pass


def _began(call: ToolCall, step: LedgerStep, builder: LedgerBuilder) -> CallBegan:
    call = ToolCall(sendable(call.id)[:_ID_CHARS], sendable(call.name)[:_ID_CHARS], sendable(call.arguments))
    fields = fields_of(call)
    command = command_of(call, fields)
    touched = touched_files(call, command)
    carried = _short_arguments(call, fields)
    builder.pending.put(
        call.id, PendingCall(call.id, call.name, carried, command[:600], touched, step.ref, step.number)
    )
    return CallBegan(call.id, bare_name(call.name), fields, call.arguments, command, touched)


def _ended(result: ToolResult, builder: LedgerBuilder) -> CallEnded:
    """Return the event of a result. A result without a known call is still an event."""
    name = sendable(result.call)[:_ID_CHARS]
    call = builder.pending.items.get(name)
    builder.pending.drop(name)
    text = sendable("\n".join(content_texts(result.content)))
    if call is None:
        return CallEnded(name, "", {}, "", (), (), text, result.status)
    fields = fields_of(ToolCall(call.id, call.name, call.arguments))
    touched = confirmed_files(call.touched, result)
    return CallEnded(name, bare_name(call.name), fields, call.command, call.touched, touched, text, result.status)


def _short_arguments(call: ToolCall, fields: CallArguments) -> str:
    """Return the arguments as JSON, small enough to be carried until the result comes: long values cut, deep ones left out."""
    if len(call.arguments) <= _WHOLE_CHARS:
        return call.arguments
    kept = {key: value for key, value in map(_short, list(fields.items())[:_MOST_FIELDS]) if value is not None}
    return json.dumps(kept)


def _short(field: tuple[str, Any]) -> tuple[str, Any]:
    key, value = field[0][:40], field[1]
    if isinstance(value, list):
        small = [item for item in cast("list[object]", value) if isinstance(item, str) and len(item) <= 80]
        return key, small[:6] or None
    return key, value[:_VALUE_CHARS] if isinstance(value, str) else value if isinstance(value, int | bool) else None
