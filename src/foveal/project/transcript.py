"""The messages of a branch as the next prompt would show them: a list of atoms with places, sizes and wire ids.

A message is added at the end, or answers the calls of the open reply; a fold replaces parts and ranges by stand-ins. Three
things are repaired here, in the transcript only, and named on the item: results that came late, twice or for no known call; ids
that a provider would refuse; and replies that were cut off. The log keeps the original messages.
"""

import hashlib
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import groupby, repeat
from operator import attrgetter, itemgetter

import msgspec

from foveal.project.atoms import calls_of, ids_of, loop_opener, sent_as, wire_id_at
from foveal.project.facts import Effect
from foveal.project.projection import Projection
from foveal.text.repair import json_object
from foveal.text.shorten.allowance import Allowance
from foveal.text.shorten.artifact import excerpt
from foveal.text.stand_in import holds_artifact, part_text, replace_part
from foveal.text.user_words import user_words
from foveal.values.entry import (
    File,
    FoldItem,
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
    Gap,
    Item,
    ResultPlace,
    Shown,
    Size,
    short_ref,
    total,
)

# 40 characters: the shortest limit that a provider was seen to enforce on call ids.
_USABLE_ID = re.compile(r"[a-zA-Z0-9_-]{1,40}\Z")

EXCERPT_TOKENS = 4_000
"""Tokens of an artifact that no window holds: as many as its head and its tail have together."""

# Dialects may add these around an item: a label on a late result or on a system message among the others, a turn of the
# user between two replies, and one before a reply without a request.
_LATE = Size(8, 64)
_LABEL = Size(8, 32)
_SEAM = Size(MESSAGE_TOKENS + 4, 64)
_OPENING = Size(MESSAGE_TOKENS + 16, 128)

_Answered = list[tuple[ToolCall, ToolResult]]


class Transcript:
    """A list of atoms that knows its places and sizes, and which atoms changed since a version."""

    def __init__(self, projection: Projection, atoms: Iterable[Atom] = (), open_reply: int | None = None) -> None:
        self.projection = projection
        self.atoms = list(atoms)
        self.size = NOTHING
        self.version = 0
        """Raised by every change of an atom that was there already."""
        self.open_reply: int | None = None
        """Place of the reply whose calls may still be answered."""
        self._changes: list[tuple[int, int]] = []
        """(version, first place changed), both rising: a change at or before the place of an earlier one replaces it."""
        self._place: dict[str, int] = {}
        self._wire_ids: set[str] = set()
        self._opaque: set[str] = set()
        if self.atoms:
            self._recount()
            self.open_reply = open_reply

    def copy(self) -> "Transcript":
        """Return a transcript that can be folded further without changing this one."""
        twin = Transcript(self.projection)
        twin.atoms, twin.size, twin.open_reply = list(self.atoms), self.size, self.open_reply
        twin.version, twin._changes = self.version, list(self._changes)
        twin._place, twin._wire_ids, twin._opaque = dict(self._place), set(self._wire_ids), set(self._opaque)
        return twin

    def place(self, entry_id: str) -> int | None:
        """Return the place of the atom that shows this entry. Of a gap, only its first and last entry are known."""
        return self._place.get(entry_id)

    @property
    def settled(self) -> int:
        """Number of leading atoms that no further message can change."""
        last = len(self.atoms) - 1
        return last if self.open_reply is None else min(self.open_reply, last)

    def changed_since(self, version: int) -> int:
        """Return the first place that changed after this version; the number of atoms if none did."""
        at = bisect_right(self._changes, version, key=itemgetter(0))
        return self._changes[at][1] if at < len(self._changes) else len(self.atoms)

    def take(self, seq: int, entry_id: str, message: Message, *, is_file: bool = False) -> Effect:
        """Add a message: as a new atom, or to the open reply that it answers or continues. `is_file`: an attached file."""
        item = self._item(seq, entry_id, message, is_file)
        raw_tokens = sum(s.raw_tokens for s in item.shown) + MESSAGE_TOKENS * (message.role != "tool")
        # A part that the provider does not take is not reduced: recall cannot show more of it.
        is_reduced = any(s.level not in ("full", "hidden") and s.policy != "dialect" for s in item.shown)
        match message.role:
            case "assistant":
                self._reply(item, message)
            case "tool":
                answered = self._results(item, message)
                return Effect(raw_tokens, is_reduced, answered=tuple(answered))
            case "system":
                leading = all(atom.kind == "system" for atom in self.atoms[-1:])
                size = item.size if leading else item.size + _LABEL
                self._push(Atom("system" if leading else "user", (item,), size))
            case "user":
                self._push(Atom("user", (item,), item.size))
                return Effect(raw_tokens, is_reduced, any(map(_asks, item.shown, message.parts)))
        return Effect(raw_tokens, is_reduced)

    def _item(self, seq: int, entry_id: str, message: Message, is_file: bool) -> Item:
        is_pinned = entry_id in self.projection.pins.entries
        refs = [short_ref(entry_id, i) for i in range(len(message.parts))]
        prepared = self.projection.prepared(message.parts, message.role, is_file=is_file)
        shown = tuple(self._show(*each) for each in zip(message.parts, repeat(message.model), refs, prepared))
        if message.role == "tool" and not is_pinned:
            shown = tuple(
                self._retained(one, ref, part) for one, ref, (part, _, _) in zip(shown, refs, prepared, strict=True)
            )
        if is_pinned:
            shown = tuple(self._whole(one, part) for one, (part, _, _) in zip(shown, prepared, strict=True))
        repair = "" if shown else "the message is empty"
        return Item(seq, entry_id, message.role, shown, message.model, is_pinned, repair)

    def _show(self, part: Part, writer: str | None, ref: str, prepared: tuple[Part, str, str]) -> Shown:
        """Return the part as it is shown on arrival, before retention. `prepared` is the part as the projection sends it."""
        measure = self.projection.measure
        if isinstance(part, Opaque) and json_object(part.json) is None:
            return Shown(None, NOTHING, measure.part(part).tokens, "hidden", "repair", "not a JSON object")
        if reason := self.projection.omit(part, writer):
            return Shown(None, NOTHING, measure.part(part).tokens, "hidden", "dialect", reason)
        if isinstance(part, Text) and not part.text.strip() and not part.signature:
            return Shown(None, NOTHING, 0, "hidden", "repair", "empty text")
        if isinstance(part, Opaque):
            if (identity := _identity(part)) in self._opaque:
                because = "the same part is shown already; providers refuse it twice"
                return Shown(None, NOTHING, measure.part(part).tokens, "hidden", "repair", because)
            self._opaque.add(identity)
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

    def _retained(self, shown: Shown, ref: str, result: Part) -> Shown:
        """Return a result as its retention shows it on arrival. `shown` has it whole, or an excerpt of an artifact."""
        if shown.part is None or not isinstance(result, ToolResult):
            return shown
        calls = calls_of(self.atoms[self.open_reply]) if self.open_reply is not None else ()
        call = next((call for call in calls if call.id == result.call), None)
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

    def _reply(self, item: Item, message: Message) -> None:
        calls = [(i, part) for i, part in enumerate(message.parts) if isinstance(part, ToolCall)]
        if message.stop != "done":
            self._opaque -= {_identity(s.part) for s in item.shown if isinstance(s.part, Opaque)}
            cut = _cut_off(item, message.stop)
            kind, size = ("hidden", NOTHING) if cut.is_silent else ("assistant", cut.size + self._seam())
            self._push(Atom(kind, (cut,), size, tuple(c.id for _, c in calls), (None,) * len(calls)))
            self.open_reply = len(self.atoms) - 1 if calls else None
            return
        wire_ids = tuple(self._wire_id(call.id, item.id, i) for i, call in calls)
        item = self._with_wire_ids(item, [i for i, _ in calls], wire_ids)
        if self._is_split_reply(message.model):
            self._join_reply(item, wire_ids)
            return
        if not calls:
            self.open_reply = None
            self._push(Atom("assistant", (item,), item.size + self._seam()))
            return
        size = total((item.size, self._seam(), *map(self._placeholder, wire_ids)))
        self._push(Atom("tools", (item,), size, wire_ids, (None,) * len(calls)))
        self.open_reply = len(self.atoms) - 1

    def _placeholder(self, wire_id: str) -> Size:
        """Return the size of the made-up result for a call that has none yet."""
        return self.projection.measure.part(ToolResult(wire_id, (Text(SYNTHETIC_RESULT),)))

    def _seam(self) -> Size:
        """Return the size of the user turn that some providers require between two replies, and before the first."""
        for atom in reversed(self.atoms):
            if atom.kind == "system":
                break
            if atom.gap or any(not item.is_silent for item in atom.items):
                return _SEAM if atom.kind == "assistant" else NOTHING
        return _OPENING

    def _is_split_reply(self, model: str | None) -> bool:
        """Return whether the last atom is this model's reply with no call answered yet: recorders split replies."""
        if self.open_reply is None or self.open_reply != len(self.atoms) - 1:
            return False
        atom = self.atoms[self.open_reply]
        return atom.kind == "tools" and not any(atom.answers) and atom.items[0].model == model

    def _join_reply(self, item: Item, wire_ids: tuple[str, ...]) -> None:
        index = len(self.atoms) - 1
        atom = self.atoms[index]
        item = msgspec.structs.replace(item, repair="joined to the reply before it, which it continues")
        size = total((atom.size, item.size, *map(self._placeholder, wire_ids)))
        answers = atom.answers + (None,) * len(wire_ids)
        self._replace(index, Atom("tools", (*atom.items, item), size, atom.wire_ids + wire_ids, answers))
        self._place[item.id] = index

    def _wire_id(self, original: str, entry_id: str, part: int) -> str:
        """Return the provider's id if every provider accepts it and no other call has it; else a derived one."""
        wire_id = original
        if not _USABLE_ID.match(original) or original in self._wire_ids:
            wire_id = "call_" + hashlib.sha256(f"{entry_id}/{part}".encode()).hexdigest()[:24]
        self._wire_ids.add(wire_id)
        return wire_id

    def _with_wire_ids(self, item: Item, places: list[int], wire_ids: tuple[str, ...]) -> Item:
        """Return the item measured with the ids that are sent, which may be longer than the recorded ones."""
        shown = list(item.shown)
        for i, wire_id in zip(places, wire_ids, strict=True):
            shown[i] = self._with_wire_id(shown[i], wire_id)
        return msgspec.structs.replace(item, shown=tuple(shown))

    def _with_wire_id(self, shown: Shown, wire_id: str) -> Shown:
        sent = sent_as(shown.part, wire_id)
        if sent is None or sent is shown.part:
            return shown
        return msgspec.structs.replace(shown, size=self.projection.measure.part(sent))

    def _results(self, item: Item, message: Message) -> _Answered:
        """Add a tool message to the open reply, or as a note of its own. Return the calls that it answered."""
        answered = self._answer(self.open_reply, item, message) if self.open_reply is not None else None
        if answered is None:
            item = msgspec.structs.replace(item, repair=item.repair or "no open call has this id; shown as a note")
            notes = [_LATE] * sum(shown.part is not None for shown in item.shown)
            self._push(Atom("user", (item,), total((item.size, *notes, Size(MESSAGE_TOKENS, 32)))))
        return answered or []

    def _answer(self, index: int, item: Item, message: Message) -> _Answered | None:
        """Give the results to the open calls of this atom and return those calls; None if no result belongs here."""
        atom = self.atoms[index]
        answers, shown, size, known = list(atom.answers), list(item.shown), atom.size, False
        calls, answered = list(calls_of(atom)), _Answered()
        # A reply that ended early shows no calls any more; it keeps the recorded ids in place of wire ids.
        is_cut = atom.kind != "tools"
        ids = atom.wire_ids if is_cut else [call.id for call in calls]
        for i, part in enumerate(message.parts):
            same = [k for k, call_id in enumerate(ids) if isinstance(part, ToolResult) and call_id == part.call]
            known |= bool(same)
            free = next((k for k in same if answers[k] is None), None)
            if free is None:
                because = (
                    "a second result for the same call; the first is shown" if same else "no open call has this id"
                )
                shown[i] = Shown(None, NOTHING, shown[i].raw_tokens, "hidden", "repair", because)
                continue
            answers[free] = ResultPlace(len(atom.items), i)
            if free < len(calls) and isinstance(part, ToolResult):
                answered.append((calls[free], part))
            if not is_cut:
                shown[i] = self._with_wire_id(shown[i], atom.wire_ids[free])
                size -= self._placeholder(atom.wire_ids[free])
        if not known:
            return None
        item = msgspec.structs.replace(item, shown=tuple(shown))
        if is_cut:
            item = _hide(item, "the reply that asked for it ended early")
        size += item.size
        self._replace(index, Atom(atom.kind, (*atom.items, item), size, atom.wire_ids, tuple(answers)))
        self._place[item.id] = index
        return answered

    def apply(self, items: Iterable[FoldItem]) -> bool:
        """Show these parts and ranges by their stand-ins, except pinned ones. Return whether any of them was shown."""
        applied = False
        for item in items:
            match item:
                case PartFold():
                    applied |= self._fold_part(item)
                case RangeFold():
                    applied |= self._fold_range(item)
        return applied

    def covered_by(self, fold: RangeFold) -> Iterator[int]:
        """Yield the positions in the log of the messages that this fold covers and no fold before it did."""
        first, last = self._place.get(fold.first), self._place.get(fold.last)
        if first is not None and last is not None:
            for atom in self.atoms[first : last + 1]:
                yield from (item.seq for item in atom.items if not atom.is_held)

    def shrinks(self, fold: FoldItem) -> bool:
        """Return whether the fold makes the transcript smaller: a stand-in may be longer than its original."""
        if isinstance(fold, PartFold):
            if (place := self._foldable_part(fold)) is None:
                return False
            index, at = place
            before = self.atoms[index].items[at].shown[fold.part].size
            return self._stand_in(index, at, fold).size.is_less_than(before)
        first, last = self._place.get(fold.first), self._place.get(fold.last)
        if first is None or last is None:
            return False
        going = [atom for atom in self.atoms[first : last + 1] if not atom.is_held]
        text = with_quotes(fold.text, self._quotes(going))
        return self._gap_size(text).is_less_than(total(atom.size for atom in going))

    def _foldable_part(self, fold: PartFold) -> tuple[int, int] | None:
        """Return the atom and the item of a part; None if it is pinned, covered, not shown or at its floor."""
        index = self._place.get(fold.entry)
        if index is None or fold.entry in self.projection.pins.entries or self.atoms[index].gap is not None:
            return None
        items = self.atoms[index].items
        at = next(i for i, item in enumerate(items) if item.id == fold.entry)
        if not 0 <= fold.part < len(items[at].shown):
            return None
        shown = items[at].shown[fold.part]
        return None if shown.part is None or is_below(fold.level, shown.floor) else (index, at)

    def _stand_in(self, index: int, at: int, fold: PartFold) -> Shown:
        atom = self.atoms[index]
        before = atom.items[at].shown[fold.part]
        part = replace_part(before.part, with_quotes(fold.text, self._quotes_in(atom.items[at], fold.part)))
        sent = sent_as(part, wire_id_at(atom, ResultPlace(at, fold.part)))
        size = self.projection.measure.part(sent) if sent else NOTHING
        return msgspec.structs.replace(
            before, part=part, size=size, level=fold.level, policy=fold.policy, because=fold.because
        )

    def _fold_part(self, fold: PartFold) -> bool:
        place = self._foldable_part(fold)
        if place is None:
            return False
        index, at = place
        atom = self.atoms[index]
        item = atom.items[at]
        shown = list(item.shown)
        if isinstance(part := shown[fold.part].part, Opaque):
            self._opaque.discard(_identity(part))
        shown[fold.part] = self._stand_in(index, at, fold)
        folded = msgspec.structs.replace(item, shown=tuple(shown))
        items = (*atom.items[:at], folded, *atom.items[at + 1 :])
        self._replace(index, msgspec.structs.replace(atom, items=items, size=atom.size - item.size + folded.size))
        return True

    def _fold_range(self, fold: RangeFold) -> bool:
        first, last = self._place.get(fold.first), self._place.get(fold.last)
        if first is None or last is None or first > last:
            return False
        text, kept, gaps = fold.text, list[Atom](), list[Atom]()
        opener = loop_opener(self.atoms)
        in_loop = opener is not None and opener < first
        for is_held, run in groupby(self.atoms[first : last + 1], attrgetter("is_held")):
            if is_held:
                kept.extend(run)
            else:
                # A user turn inside a running loop would end it, so gaps of the loop are placed before its opener.
                (gaps if in_loop else kept).append(self._gap(list(run), fold, text))
                text = ""  # one stand-in for the range, even if a pin splits it
        self.atoms[first : last + 1] = kept
        if opener is not None and in_loop:
            self.atoms[opener:opener] = gaps
        self._mark_changed(opener if opener is not None and in_loop else first)
        self._recount()
        return True

    def _quotes(self, run: list[Atom]) -> list[str]:
        """Return the pinned passages of these atoms, including those of atoms covered before."""
        ids = [item.id for atom in run for item in atom.items]
        before = [quote for atom in run if atom.gap for quote in atom.gap.quotes]
        return [*before, *self.projection.pins.quotes_of(ids, self._quote).values()]

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

    def _gap(self, run: list[Atom], fold: RangeFold, text: str) -> Atom:
        entries = sum(atom.gap.entries if atom.gap else len(atom.items) for atom in run)
        raw = sum(atom.raw_tokens for atom in run)
        newest = max(atom.newest for atom in run)
        quotes = tuple(self._quotes(run))
        text = with_quotes(text, quotes)
        reason = text, fold.level, fold.policy, fold.because
        gap = Gap(run[0].first, run[-1].last, newest, entries, raw, *reason, quotes)
        return Atom("gap", (), self._gap_size(text), gap=gap)

    def _gap_size(self, text: str) -> Size:
        # Without a text, the pins on both sides of the gap become neighbours: two replies in a row.
        return self.projection.measure.text(text) + Size(MESSAGE_TOKENS, 32) if text.strip() else _SEAM

    def _push(self, atom: Atom) -> None:
        for entry in ids_of(atom):
            self._place[entry] = len(self.atoms)
        self.atoms.append(atom)
        self.size += atom.size

    def _replace(self, index: int, atom: Atom) -> None:
        self.size += atom.size - self.atoms[index].size
        self.atoms[index] = atom
        self._mark_changed(index)

    def _mark_changed(self, place: int) -> None:
        while self._changes and self._changes[-1][1] >= place:
            self._changes.pop()
        self.version += 1
        self._changes.append((self.version, place))

    def _recount(self) -> None:
        """Derive places, size, used ids and the open reply anew, after atoms have moved."""
        self._place = {entry: i for i, atom in enumerate(self.atoms) for entry in ids_of(atom)}
        self._wire_ids = {wire_id for atom in self.atoms if atom.kind == "tools" for wire_id in atom.wire_ids}
        shown = (s.part for atom in self.atoms for item in atom.items for s in item.shown)
        self._opaque = {_identity(part) for part in shown if isinstance(part, Opaque)}
        self.size = total(atom.size for atom in self.atoms)
        if self.open_reply is not None:
            replies = [i for i, atom in enumerate(self.atoms) if atom.kind in ("tools", "hidden", "assistant")]
            self.open_reply = replies[-1] if replies and self.atoms[replies[-1]].wire_ids else None


def _excerpted(part: Stored | ToolResult, room: Allowance) -> Part:
    """Return the part with the most telling lines of its artifacts in place of them."""
    if isinstance(part, Stored):
        return Text(part.shown or excerpt(part, room))
    content = tuple(
        Text(item.shown or excerpt(item, room)) if isinstance(item, Stored) else item for item in part.content
    )
    return msgspec.structs.replace(part, content=content)


def _asks(shown: Shown, part: Part) -> bool:
    """Return whether a part of a user message may be the request: it is shown, and is not a harness's text."""
    return shown.part is not None and not (isinstance(part, Text) and not user_words(part.text))


def _cut_off(item: Item, stop: str) -> Item:
    """Return a reply that ended early: of an aborted one the texts, which the user has seen; of a failed one nothing."""
    because = f"the reply ended with {stop}"
    if stop != "aborted":
        return _hide(item, because)
    shown = tuple(
        one if one.part is None or isinstance(one.part, Text) else _hidden(one, f"{because}; only its text is kept")
        for one in item.shown
    )
    return msgspec.structs.replace(item, shown=shown, repair=because)


def _identity(part: Opaque) -> str:
    """Return the id that the provider gave a part of its own; the whole part if it has none."""
    named = (json_object(part.json) or {}).get("id")
    return f"{part.provider} {named}" if isinstance(named, str) and named else part.json


def _hide(item: Item, because: str) -> Item:
    return msgspec.structs.replace(item, shown=tuple(_hidden(one, because) for one in item.shown))


def _hidden(shown: Shown, because: str) -> Shown:
    return Shown(None, NOTHING, shown.raw_tokens, "hidden", "repair", because)
