"""From messages to the atoms that one projection shows: on arrival, folded, and again when another projection takes over.

Nothing here depends on the rest of the transcript: an atom and the entries that it shows are enough to make it again.
"""

from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import cast

import msgspec

from foveal.project.atoms import calls_of, sent_as, wire_id_at
from foveal.project.projection import Projection
from foveal.text.repair import json_object
from foveal.text.shorten.allowance import Allowance
from foveal.text.shorten.artifact import excerpt
from foveal.text.stand_in import holds_artifact, part_text, replace_part
from foveal.values.entry import (
    ATTACHED,
    CLIENT,
    Entry,
    File,
    Fold,
    Image,
    Message,
    Opaque,
    Part,
    PartFold,
    RangeFold,
    Stored,
    Text,
    ToolCall,
    ToolResult,
)
from foveal.values.own_tools import RECALL_TOOL, SEARCH_TOOL
from foveal.values.pins import with_quotes
from foveal.values.retention import is_below
from foveal.values.shown import (
    MESSAGE_TOKENS,
    NOTHING,
    SYNTHETIC_RESULT,
    Atom,
    AtomKind,
    Gap,
    Item,
    ResultPlace,
    Shown,
    Size,
    short_ref,
    total,
)

EXCERPT_TOKENS = 4_000
"""Tokens of an artifact that no window holds: as many as its head and its tail have together."""

# Dialects may add these around an item: a label on a late result or on a system message among the others, and a turn of the
# user between two replies.
_LATE = Size(8, 64)
_NOTE = Size(MESSAGE_TOKENS, 32)
LABEL = Size(8, 32)
SEAM = Size(MESSAGE_TOKENS + 4, 64)

REPEATED = "the same part is shown already; providers refuse it twice"
FOREIGN = "a block that only the client itself can send"
ENDED_EARLY = "the reply that asked for it ended early"

NO_CALLS: Mapping[str, ToolCall] = MappingProxyType({})


def calls_by_id(atom: Atom) -> Mapping[str, ToolCall]:
    """Return the calls of an atom by the ids that they were recorded with: the first, where two have the same."""
    return {call.id: call for call in reversed(list(calls_of(atom)))}


class AtomMaker:
    """Makes items and atoms as one projection shows them."""

    def __init__(self, projection: Projection) -> None:
        self.projection = projection

    def item(
        self,
        seq: int,
        entry: Entry,
        message: Message,
        calls: Mapping[str, ToolCall] = NO_CALLS,
        repeated: Collection[int] = (),
    ) -> Item:
        """Return a message as it is shown on arrival; `calls` are those that a tool message may answer, by their ids.

        `repeated` are the numbers of its parts that the transcript had already when it came.
        """
        is_pinned = entry.id in self.projection.pins.entries
        refs = [short_ref(entry.id, i) for i in range(len(message.parts))]
        prepared = self.projection.prepared(message.parts, message.role, is_file=entry.author == ATTACHED)
        shown = tuple(
            _hidden(self.projection.measure.part(part).tokens, REPEATED)
            if i in repeated
            else self._show(part, message, refs[i], prepared[i])
            for i, part in enumerate(message.parts)
        )
        if message.role == "tool" and not is_pinned:
            shown = tuple(
                self._retained(one, ref, part, calls)
                for one, ref, (part, _, _) in zip(shown, refs, prepared, strict=True)
            )
        if is_pinned:
            shown = tuple(self._whole(one, part) for one, (part, _, _) in zip(shown, prepared, strict=True))
        repair = "" if shown else "the message is empty"
        return Item(seq, entry.id, message.role, shown, message.model, is_pinned, repair)

    def _show(self, part: Part, message: Message, ref: str, prepared: tuple[Part, str, str]) -> Shown:
        """Return the part as it is shown on arrival, before retention. `prepared` is the part as the projection sends it."""
        measure = self.projection.measure
        if isinstance(part, Opaque) and json_object(part.json) is None:
            return _hidden(measure.part(part).tokens, "not a JSON object")
        reason = FOREIGN if isinstance(part, Opaque) and message.role != "assistant" else ""
        if reason := reason or self.projection.omit(part, message.model):
            return Shown(None, NOTHING, measure.part(part).tokens, "hidden", "dialect", reason)
        if isinstance(part, Text) and not part.text.strip() and not part.signature:
            return _hidden(0, "empty text")
        raw = measure.part(part)
        safe, wrong, policy = prepared
        if isinstance(safe, Stored) or (isinstance(safe, ToolResult) and holds_artifact(safe)):
            room = Allowance(EXCERPT_TOKENS, measure.count, ref, guard=self.projection.guard.live)
            small = _excerpted(safe, room)
            has_line = isinstance(safe, Stored) and bool(safe.shown)
            because = "a line of its own" if has_line else "too large to be shown whole; lines of the artifact"
            return Shown(small, measure.part(small), raw.tokens, "trimmed", "arrival", because)
        if wrong:
            level = "reference" if isinstance(part, Image | File) and isinstance(safe, Text) else "full"
            return Shown(safe, measure.part(safe), raw.tokens, level, policy, wrong)
        return Shown(safe, raw, raw.tokens)

    def _whole(self, shown: Shown, part: Part) -> Shown:
        """Return a part that must stay whole. An artifact that cannot be counts with its whole size, for the budget to refuse."""
        is_excerpt = shown.part is not None and holds_artifact(part) and not (isinstance(part, Stored) and part.shown)
        return msgspec.structs.replace(shown, size=self.projection.measure.part(part)) if is_excerpt else shown

    def _retained(self, shown: Shown, ref: str, result: Part, calls: Mapping[str, ToolCall]) -> Shown:
        """Return a result as its retention shows it on arrival. `shown` has it whole, or an excerpt of an artifact."""
        if shown.part is None or not isinstance(result, ToolResult):
            return shown
        call = calls.get(result.call)
        if call and call.name in (RECALL_TOOL, SEARCH_TOOL):
            return shown  # the model has just fetched it
        arrival = self.projection.on_arrival(result, call, ref)
        if call and call.name in self.projection.pins.tools:
            return self._whole(msgspec.structs.replace(shown, floor="full"), result)
        kept = msgspec.structs.replace(shown, floor=arrival.floor, ttl_turns=arrival.ttl_turns, hint=arrival.hint)
        if arrival.text is None:
            kept = msgspec.structs.replace(kept, because=arrival.because or kept.because)
            return self._whole(kept, result) if arrival.floor == "full" else kept
        part = replace_part(result, arrival.text)
        size = self.projection.measure.part(part) if part else NOTHING
        return msgspec.structs.replace(
            kept, part=part, size=size, level=arrival.level, policy="retention", because=arrival.because
        )

    def placeholder(self, wire_id: str) -> Size:
        """Return the size of the made-up result for a call that has none yet."""
        return self.projection.measure.part(ToolResult(wire_id, (Text(SYNTHETIC_RESULT),)))

    def with_wire_ids(self, item: Item, places: list[int], wire_ids: tuple[str, ...]) -> Item:
        """Return the item measured with the ids that are sent, which may be longer than the recorded ones."""
        shown = list(item.shown)
        for i, wire_id in zip(places, wire_ids, strict=True):
            shown[i] = self.with_wire_id(shown[i], wire_id)
        return msgspec.structs.replace(item, shown=tuple(shown))

    def with_wire_id(self, shown: Shown, wire_id: str) -> Shown:
        """Return the part measured with the id that is sent."""
        sent = sent_as(shown.part, wire_id)
        if sent is None or sent is shown.part:
            return shown
        return msgspec.structs.replace(shown, size=self.projection.measure.part(sent))

    def is_foldable(self, item: Item, fold: PartFold) -> bool:
        """Return whether a part may be shown by this fold: it is not pinned, it is shown, and above its floor."""
        shown = item.shown[fold.part]
        return not item.pinned and shown.part is not None and not is_below(fold.level, shown.floor)

    def stand_in(self, atom: Atom, at: int, fold: PartFold) -> Shown:
        """Return a part of the item at this place, shown by a fold."""
        before = atom.items[at].shown[fold.part]
        quotes = self._quotes_in(atom.items[at], fold.part)
        part = replace_part(before.part, with_quotes(fold.text, quotes))
        sent = sent_as(part, wire_id_at(atom, ResultPlace(at, fold.part)))
        size = self.projection.measure.part(sent) if sent else NOTHING
        return msgspec.structs.replace(
            before, part=part, size=size, level=fold.level, policy=fold.policy, because=fold.because
        )

    def with_fold(self, atom: Atom, at: int, fold: PartFold, ref: tuple[int, int]) -> Atom:
        """Return the atom with the fold of one of its parts: it is noted even where this projection does not show it."""
        item = atom.items[at]
        shown = item.shown
        if self.is_foldable(item, fold):
            shown = (*shown[: fold.part], self.stand_in(atom, at, fold), *shown[fold.part + 1 :])
        folded = msgspec.structs.replace(item, shown=shown, folds=(*item.folds, ref))
        items = (*atom.items[:at], folded, *atom.items[at + 1 :])
        return msgspec.structs.replace(atom, items=items, size=atom.size - item.size + folded.size)

    def _quotes_in(self, item: Item, index: int) -> list[str]:
        """Return the pinned passages of this part.

        A passage that ends in the middle of a forged tag is in no part as it is shown alone: it then counts as a passage of
        every part that has words, rather than of none.
        """
        words = [part_text(shown.part) for shown in item.shown]
        quotes = self.projection.pins.quotes_of((item.id,), self._quote)
        found = {raw: [shown in text or raw in text for text in words] for raw, shown in quotes.items()}
        return [quotes[raw] for raw, places in found.items() if words[index] and (places[index] or not any(places))]

    def _quote(self, text: str) -> str:
        return self.projection.guard.text(text)

    def quoting(self, text: str, quotes: Iterable[tuple[str, str]]) -> str:
        """Return a text followed by the pinned passages that it does not contain, as they are shown."""
        return with_quotes(text, dict.fromkeys(self._quote(passage) for _, passage in quotes))

    def gap_size(self, text: str) -> Size:
        """Return the size of a gap with this stand-in."""
        # Without a text, the pins on both sides of the gap become neighbours: two replies in a row.
        return self.projection.measure.text(text) + Size(MESSAGE_TOKENS, 32) if text.strip() else SEAM

    def gap_again(self, old: Atom, gap: Gap, found: Mapping[int, Entry]) -> Atom:
        """Return a gap with its text, from the fold that made it, and the passages of it that are pinned."""
        seq, number = gap.fold
        text = cast("RangeFold", cast("Fold", found[seq].body).items[number]).text if gap.leads else ""
        quotes = tuple(pair for pair in gap.quotes if pair in self.projection.pins.quotes)
        words = self.quoting(text, quotes)
        gap = msgspec.structs.replace(gap, text=words, quotes=quotes)
        return msgspec.structs.replace(old, gap=gap, size=self.gap_size(words))

    def again(self, old: Atom, found: Mapping[int, Entry]) -> Atom:
        """Return an atom as this projection shows it, from the entries that it needs."""
        if old.gap:
            return self.gap_again(old, old.gap, found)
        atom = msgspec.structs.replace(old, items=(), seam=NOTHING)
        places = {answer: old.wire_ids[k] for k, answer in enumerate(old.answers) if answer is not None}
        results: list[Item] = []
        calls = NO_CALLS
        for item in old.items:
            message = cast("Message", found[item.seq].body)
            repeated = [i for i, shown in enumerate(item.shown) if shown.because == REPEATED]
            if item.role != "tool":
                made = self.item(item.seq, found[item.seq], message, repeated=repeated)
                atom = self._with_reply(atom, made, item, message)
                calls = calls_by_id(atom)
                continue
            if any(ref[0] < item.seq for one in old.items[: len(atom.items)] for ref in one.folds):
                # A result arrives at the calls as they are shown then: folds of the calls that were made before come first.
                calls = calls_by_id(self._folded(atom, old, found, item.seq))
            made = msgspec.structs.replace(self.item(item.seq, found[item.seq], message, calls), repair=item.repair)
            results.append(self._with_results(made, item, len(atom.items) + len(results), old.kind, places))
        atom = msgspec.structs.replace(atom, items=(*atom.items, *results))
        atom = self._folded(atom, old, found)
        return msgspec.structs.replace(atom, size=self._size(atom))

    def _with_reply(self, atom: Atom, made: Item, old: Item, message: Message) -> Atom:
        """Return an atom with one more item that is no result; the repairs of the transcript stay."""
        made = msgspec.structs.replace(made, repair=old.repair)
        if message.stop != "done":
            made = cut_off(made, message.stop)
        elif atom.kind == "tools":
            before = len(list(calls_of(atom)))
            numbers = [i for i, part in enumerate(message.parts) if isinstance(part, ToolCall)]
            made = self.with_wire_ids(made, numbers, atom.wire_ids[before : before + len(numbers)])
        return msgspec.structs.replace(atom, items=(*atom.items, made))

    def _with_results(self, made: Item, old: Item, at: int, kind: AtomKind, places: Mapping[ResultPlace, str]) -> Item:
        """Return results, the item at this place of an atom of this kind, with the ids and the repairs of the transcript."""
        if kind != "tools":
            return made if kind == "user" else hide(made, ENDED_EARLY)
        shown = [
            self.with_wire_id(one, places[place])
            if (place := ResultPlace(at, i)) in places
            else _hidden(one.raw_tokens, old.shown[i].because)
            for i, one in enumerate(made.shown)
        ]
        return msgspec.structs.replace(made, shown=tuple(shown))

    def _folded(self, atom: Atom, old: Atom, found: Mapping[int, Entry], before: int | None = None) -> Atom:
        """Return the atom with the folds of its parts, or with those that were recorded before this position."""
        for at in range(len(atom.items)):
            for ref in old.items[at].folds:
                if before is None or ref[0] < before:
                    fold = cast("PartFold", cast("Fold", found[ref[0]].body).items[ref[1]])
                    atom = self.with_fold(atom, at, fold, ref)
        return atom

    def _size(self, atom: Atom) -> Size:
        """Return the size of an atom, without the turn of the user before it."""
        first = atom.items[0]
        match atom.kind:
            case "hidden":
                return NOTHING
            case "user" if first.role == "tool":
                return note_size(first)
            case "user" if first.role == "system":
                return first.size + LABEL
            case "tools":
                free = [wire_id for wire_id, answer in zip(atom.wire_ids, atom.answers, strict=True) if answer is None]
                return total((*(item.size for item in atom.items), *map(self.placeholder, free)))
            case _:
                return total(item.size for item in atom.items)


def cut_off(item: Item, stop: str) -> Item:
    """Return a reply that ended early: of an aborted one the texts, which the user has seen; of a failed one nothing."""
    because = f"the reply ended with {stop}"
    if stop != "aborted":
        return hide(item, because)
    shown = tuple(
        one
        if one.part is None or isinstance(one.part, Text)
        else _hidden(one.raw_tokens, f"{because}; only its text is kept")
        for one in item.shown
    )
    return msgspec.structs.replace(item, shown=shown, repair=because)


def is_reduced(item: Item) -> bool:
    """Return whether a part of the item is shown below full, so that recall can show more of it.

    A part that the provider does not take is not reduced, since recall cannot show more of it, nor is one that a client
    shortened, which has no reference.
    """
    return any(
        shown.level not in ("full", "hidden") and shown.policy not in ("dialect", CLIENT) for shown in item.shown
    )


def hide(item: Item, because: str) -> Item:
    """Return an item of which no part is shown."""
    return msgspec.structs.replace(item, shown=tuple(_hidden(one.raw_tokens, because) for one in item.shown))


def _hidden(raw_tokens: int, because: str) -> Shown:
    return Shown(None, NOTHING, raw_tokens, "hidden", "repair", because)


def note_size(item: Item) -> Size:
    """Return the size of results that no open call has asked for, as a message of their own."""
    notes = [_LATE] * sum(shown.part is not None for shown in item.shown)
    return total((item.size, *notes, _NOTE))


def _excerpted(part: Stored | ToolResult, room: Allowance) -> Part:
    """Return the part with the most telling lines of its artifacts in place of them."""
    if isinstance(part, Stored):
        return Text(part.shown or excerpt(part, room))
    content = tuple(
        Text(item.shown or excerpt(item, room)) if isinstance(item, Stored) else item for item in part.content
    )
    return msgspec.structs.replace(part, content=content)
