"""Questions about atoms: their calls and results, their wire ids, and the tool loop that is running."""

from collections.abc import Iterator, Sequence

import msgspec

from foveal.values.entry import Part, RedactedThinking, Thinking, ToolCall, ToolResult
from foveal.values.shown import Atom, Item, ResultPlace, Shown


def calls_of(atom: Atom) -> Iterator[ToolCall]:
    """Yield the calls of an atom in order, with the ids that they were recorded with."""
    for item in atom.items:
        if item.role == "assistant":
            for shown in item.shown:
                if isinstance(shown.part, ToolCall):
                    yield shown.part


def answered(atom: Atom) -> Iterator[tuple[ToolCall, ResultPlace]]:
    """Yield the calls of an atom that have a result, each with the place of its result."""
    for call, answer in zip(calls_of(atom), atom.answers, strict=False):
        if answer is not None:
            yield call, answer


def shown_parts(atom: Atom) -> Iterator[tuple[Item, int, Shown, ToolCall | None]]:
    """Yield every part of an atom with its item and its place there; a result also with the call that it answers."""
    calls = {(answer.item, answer.part): call for call, answer in answered(atom)}
    for at, item in enumerate(atom.items):
        for i, shown in enumerate(item.shown):
            yield item, i, shown, calls.get((at, i))


def thinking_in(atom: Atom) -> Iterator[tuple[Item, int]]:
    """Yield the places of the atom's thinking, without that of pinned messages."""
    for item, i, shown, _ in shown_parts(atom):
        if isinstance(shown.part, Thinking | RedactedThinking) and not item.pinned:
            yield item, i


def hint_of(call: ToolCall | None) -> str:
    """Return the name and the arguments of a call, from which the kind of its result can be told."""
    return f"{call.name} {call.arguments}" if call else ""


def loop_start(atoms: Sequence[Atom]) -> int:
    """Return the place where the running tool loop began: the first call since the last reply without one, else that reply.

    A request in between does not end a loop: it is sent to the provider together with the results before it.
    """
    replies = (i for i, atom in enumerate(atoms) if atom.kind == "assistant" and not atom.items[0].is_silent)
    last = max(replies, default=0)
    return next((i for i in range(last, len(atoms)) if atoms[i].kind == "tools"), last)


def unseen_from(atoms: Sequence[Atom]) -> int:
    """Return the place from which on the model has seen nothing yet: its newest calls with their results, and all after them.

    A gap may be the notices that a harness sent after the calls; only where no calls are before it, it is the past.
    """
    place = len(atoms)
    for i in range(len(atoms) - 1, -1, -1):
        atom = atoms[i]
        if atom.kind == "tools":
            return i
        if atom.kind == "system" or (atom.kind == "assistant" and not atom.items[0].is_silent):
            break
        if atom.gap is None and place == i + 1:
            place = i
    return place


def open_calls(atoms: Sequence[Atom]) -> Atom | None:
    """Return the calls whose results the model has not seen yet, whatever a harness has said after them."""
    place = unseen_from(atoms)
    return atoms[place] if place < len(atoms) and atoms[place].kind == "tools" else None


def loop_opener(atoms: Sequence[Atom]) -> int | None:
    """Return the place of the reply that opened the running tool loop, if it holds thinking.

    Providers require that thinking while the loop runs.
    """
    start = loop_start(atoms)
    parts = [shown.part for _, _, shown, _ in shown_parts(atoms[start])] if start < len(atoms) else []
    return start if any(isinstance(part, Thinking | RedactedThinking) for part in parts) else None


def sent_as(part: Part | None, wire_id: str | None) -> Part | None:
    """Return the part with the id that ties a call to its result on the wire."""
    match part:
        case ToolCall(call_id) if wire_id is not None and call_id != wire_id:
            return msgspec.structs.replace(part, id=wire_id)
        case ToolResult(call) if wire_id is not None and call != wire_id:
            return msgspec.structs.replace(part, call=wire_id)
        case _:
            return part


def wire_id_at(atom: Atom, place: ResultPlace) -> str | None:
    """Return the wire id of the call or the result at this place; None for other parts and other atoms."""
    if atom.kind != "tools":
        return None
    if place in atom.answers:
        return atom.wire_ids[atom.answers.index(place)]
    calls = [
        ResultPlace(at, i)
        for at, item in enumerate(atom.items)
        for i, shown in enumerate(item.shown)
        if isinstance(shown.part, ToolCall)
    ]
    return atom.wire_ids[calls.index(place)] if place in calls else None


def ids_of(atom: Atom) -> Iterator[str]:
    """Yield the entries that an atom shows; of a gap, its first and its last."""
    if atom.gap:
        yield from (atom.gap.first, atom.gap.last)
    for item in atom.items:
        yield item.id
