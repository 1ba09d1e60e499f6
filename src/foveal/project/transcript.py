"""The messages of a branch as the next prompt would show them: a list of atoms with places, sizes and wire ids.

A message is added at the end, or answers the calls of the open reply; a fold replaces parts and ranges by stand-ins. Three
things are repaired here, in the transcript only, and named on the item: results that came late, twice or for no known call; ids
that a provider would refuse; and replies that were cut off. The log keeps the original messages.

Which messages are shown, in which atoms and under which ids, follows from the log alone; the projection decides how each of
them is shown. That is why `shown_by` can show a transcript by another projection without the messages that folds cover.
"""

import hashlib
import re
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple, cast

import msgspec

from foveal.project.atom_maker import (
    ENDED_EARLY,
    LABEL,
    NO_CALLS,
    REPEATED,
    SEAM,
    AtomMaker,
    cut_off,
    hide,
    is_reduced,
    note_size,
)
from foveal.project.atoms import calls_of, ids_of, loop_opener
from foveal.project.facts import Effect
from foveal.project.opaque_parts import OpaqueParts
from foveal.project.projection import Projection
from foveal.text.user_words import user_words
from foveal.values.call_ids import provider_id
from foveal.values.entry import (
    INSTRUCTIONS,
    Cover,
    Entry,
    FoldItem,
    Message,
    Part,
    PartFold,
    RangeFold,
    Text,
    ToolCall,
    ToolResult,
)
from foveal.values.shown import (
    MESSAGE_TOKENS,
    NOTHING,
    Atom,
    Gap,
    Item,
    ResultPlace,
    Shown,
    Size,
    total,
)

# 40 characters: the shortest limit that a provider was seen to enforce on call ids.
_USABLE_ID = re.compile(r"[a-zA-Z0-9_-]{1,40}\Z")

# A turn of the user that some providers require before a reply without a request.
_OPENING = Size(MESSAGE_TOKENS + 16, 128)

_Answered = list[tuple[ToolCall, ToolResult]]


class _Asked(NamedTuple):
    """The calls of a reply."""

    items: tuple[Item, ...]
    calls: list[ToolCall]
    by_id: Mapping[str, ToolCall]
    places: dict[str, list[int]]
    """Numbers of the calls with each id."""

    def is_of(self, atom: Atom) -> bool:
        """Return whether the atom has the same calls: the very items of the reply, and no more of them."""
        at, items = 0, atom.items
        for item in self.items:
            if at == len(items) or items[at] is not item:
                return False
            at += 1
        return at == len(items) or items[at].role != "assistant"


class Transcript:
    """A list of atoms that knows its places and sizes, and which atoms changed since a version."""

    def __init__(
        self,
        projection: Projection,
        atoms: Iterable[Atom] = (),
        open_reply: int | None = None,
        opaque: Iterable[tuple[str, int, str]] = (),
    ) -> None:
        self._maker = AtomMaker(projection)
        self.atoms = list(atoms)
        self.size = NOTHING
        self.version = 0
        """Raised by every change of an atom that was there already."""
        self.open_reply: int | None = None
        """Place of the reply whose calls may still be answered."""
        self._open: _Asked | None = None
        """Its calls, once somebody asked for them."""
        self._changes: list[tuple[int, int]] = []
        """(version, first place changed), both rising: a change at or before the place of an earlier one replaces it."""
        self._place: dict[str, int] = {}
        self._wire_ids: set[str] = set()
        self._opaque = OpaqueParts({(entry, part): same for entry, part, same in opaque})
        if self.atoms:
            self._recount()
            self.open_reply = open_reply

    @property
    def projection(self) -> Projection:
        """The projection that decides how the messages are shown."""
        return self._maker.projection

    def copy(self, projection: Projection | None = None) -> "Transcript":
        """Return a transcript that can be folded further without changing this one, or go on by another projection."""
        twin = Transcript(projection or self.projection)
        twin.atoms, twin.size, twin.open_reply = list(self.atoms), self.size, self.open_reply
        twin.version, twin._changes = self.version, list(self._changes)
        twin._place, twin._wire_ids, twin._opaque = dict(self._place), set(self._wire_ids), self._opaque.copy()
        return twin

    @property
    def opaque(self) -> tuple[tuple[str, int, str], ...]:
        """The parts that are not modelled: entry, number, and what makes two of them the same."""
        return tuple(self._opaque)

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

    def take(self, seq: int, entry: Entry, message: Message) -> Effect:
        """Add a message: as a new atom, or to the open reply that it answers or continues."""
        repeated, calls = self._opaque.take(entry.id, message), NO_CALLS
        if message.role == "tool" and self.open_reply is not None:
            calls = self._asked(self.atoms[self.open_reply]).by_id
        item = self._maker.item(seq, entry, message, calls, repeated)
        raw_tokens = sum(s.raw_tokens for s in item.shown) + MESSAGE_TOKENS * (message.role != "tool")
        match message.role:
            case "assistant":
                self._reply(item, message)
            case "tool":
                answered = self._results(item, message)
                kept = self.atoms[self._place[entry.id]].items[-1]  # a second result of a call is hidden
                return Effect(raw_tokens, is_reduced(kept), answered=tuple(answered))
            case "system" if entry.author == INSTRUCTIONS:
                self._instruct(item)
            case "system":
                leading = all(atom.kind == "system" for atom in self.atoms[-1:])
                size = item.size if leading else item.size + LABEL
                self._push(Atom("system" if leading else "user", (item,), size))
            case "user":
                self._push(Atom("user", (item,), item.size))
                return Effect(raw_tokens, is_reduced(item), any(map(_asks, message.parts)))
        return Effect(raw_tokens, is_reduced(item))

    def _instruct(self, item: Item) -> None:
        """Let a system prompt take the place of those that begin the transcript."""
        lead = next((i for i, atom in enumerate(self.atoms) if atom.kind != "system"), len(self.atoms))
        self.atoms[:lead] = [Atom("system", (item,), item.size)]
        self._shifted(0, 1 - lead)

    def _asked(self, atom: Atom) -> _Asked:
        """Return the calls of the open reply: the same as before for one more of its results."""
        known = self._open
        if known is None or not known.is_of(atom):
            calls = list(calls_of(atom))
            # A reply that ended early shows no calls any more; it keeps the recorded ids in place of wire ids.
            ids = [call.id for call in calls] if atom.kind == "tools" else atom.wire_ids
            places: dict[str, list[int]] = {}
            for k, call_id in enumerate(ids):
                places.setdefault(call_id, []).append(k)
                if (shared := provider_id(call_id)) != call_id and shared in places:
                    places[shared].append(k)
            by_id = {call_id: calls[found[0]] for call_id, found in places.items()} if calls else NO_CALLS
            items = tuple([item for item in atom.items if item.role == "assistant"])
            self._open = known = _Asked(items, calls, by_id, places)
        return known

    def _reply(self, item: Item, message: Message) -> None:
        calls = [(i, part) for i, part in enumerate(message.parts) if isinstance(part, ToolCall)]
        if message.stop != "done":
            for i in range(len(item.shown)):
                self._opaque.drop(item.id, i)
            cut = cut_off(item, message.stop)
            kind, seam = ("hidden", NOTHING) if cut.is_silent else ("assistant", self._seam())
            ids = tuple(call.id for _, call in calls)
            self._push(Atom(kind, (cut,), cut.size + seam, ids, (None,) * len(calls), seam=seam))
            self.open_reply = len(self.atoms) - 1 if calls else None
            return
        wire_ids = tuple(self._wire_id(call.id, item.id, i) for i, call in calls)
        item = self._maker.with_wire_ids(item, [i for i, _ in calls], wire_ids)
        if self._is_split_reply(message.model):
            self._join_reply(item, wire_ids)
            return
        if not calls:
            self.open_reply = None
            seam = self._seam()
            self._push(Atom("assistant", (item,), item.size + seam, seam=seam))
            return
        seam = self._seam()
        size = total((item.size, seam, *map(self._maker.placeholder, wire_ids)))
        self._push(Atom("tools", (item,), size, wire_ids, (None,) * len(calls), seam=seam))
        self.open_reply = len(self.atoms) - 1

    def needed(self, atoms: Iterable[Atom]) -> set[int]:
        """Return the positions in the log of the entries by which these atoms can be shown again."""
        seqs: set[int] = set()
        for atom in atoms:
            if atom.gap:
                seqs.add(atom.gap.fold[0])
            for item in atom.items:
                seqs.add(item.seq)
                seqs.update(seq for seq, _ in item.folds)
        return seqs

    def shown_by(
        self, projection: Projection, found: Mapping[int, Entry], places: Collection[int] | None = None
    ) -> "Transcript":
        """Return the same messages as another projection shows them: all, or those of the atoms at these places.

        `found` has the entries that the atoms need; the ranges that folds cover are not read.
        """
        fresh = self.copy(projection)
        for i in range(len(self.atoms)) if places is None else places:
            fresh.atoms[i] = fresh._maker.again(self.atoms[i], found)
            fresh._mark_changed(i)
        fresh._recount()
        fresh.open_reply = self.open_reply
        return fresh

    def bring_back(self, covered: Atom, found: Mapping[int, Entry]) -> int:
        """Show an atom that a fold covers again, behind the gap that covers it, and return its place."""
        calls = [(item, i) for item in covered.items for i in self._call_numbers(found[item.seq])]
        ids = [cast("ToolCall", cast("Message", found[item.seq].body).parts[i]).id for item, i in calls]
        if covered.kind == "tools":
            wire_ids = tuple(self._wire_id(ids[k], item.id, i) for k, (item, i) in enumerate(calls))
            covered = msgspec.structs.replace(covered, wire_ids=wire_ids)
        covered = msgspec.structs.replace(covered, is_brought_back=True)
        items = (self._unrepeated(item, cast("Message", found[item.seq].body)) for item in covered.items)
        covered = msgspec.structs.replace(covered, items=tuple(items))
        gap = self._covers(covered, -1)
        place = 0 if gap is None else gap + 1
        while place < len(self.atoms) and self.atoms[place].newest < covered.newest:
            place += 1
        self.atoms.insert(place, self._maker.again(covered, found))
        self._shifted(place, 1)
        return place

    def _unrepeated(self, item: Item, message: Message) -> Item:
        """Return an item that comes back, with a note on each of its parts that the transcript has already."""
        repeated = self._opaque.take(item.id, message)
        shown = (
            msgspec.structs.replace(one, because=REPEATED if i in repeated else one.because.replace(REPEATED, ""))
            for i, one in enumerate(item.shown)
        )
        return msgspec.structs.replace(item, shown=tuple(shown))

    def let_go(self, entry_id: str) -> bool:
        """Remove an atom that only a pin has brought back, if no pin of its entries is left; return whether it did."""
        place = self._place.get(entry_id)
        if place is None or not self.atoms[place].is_brought_back:
            return False
        if any(item.id in self.projection.pins.entries for item in self.atoms[place].items):
            return False
        self._covers(self.atoms[place], 1)
        del self.atoms[place]
        self._shifted(place, -1)
        return True

    def _covers(self, atom: Atom, sign: int) -> int | None:
        """Let the gap that covers an atom stand for its entries again, or no more; return the place of the gap."""
        place = self.covering(atom)
        found = self.atoms[place] if place is not None else None
        if place is not None and found is not None and found.gap:
            gap = msgspec.structs.replace(found.gap, entries=found.gap.entries + sign * len(atom.items))
            self.atoms[place] = msgspec.structs.replace(found, gap=gap)
        return place

    def _shifted(self, place: int, by: int) -> None:
        """Derive everything anew after an atom came to this place, or left it."""
        at = self.open_reply
        self._mark_changed(place)
        self._recount()
        self.open_reply = at + by if at is not None and place <= at else at

    def covering(self, atom: Atom) -> int | None:
        """Return the place of the gap that covers an atom, the narrowest if there are several; None if there is none."""
        seq = atom.items[0].seq
        gaps = [
            (one.gap.span[1] - one.gap.span[0], i)
            for i, one in enumerate(self.atoms)
            if one.gap and one.gap.span[0] <= seq <= one.gap.span[1]
        ]
        return min(gaps)[1] if gaps else None

    def quoting(self, pinned: tuple[str, str]) -> set[int]:
        """Return the places of the gaps that quote this passage of an entry."""
        return {i for i, atom in enumerate(self.atoms) if atom.gap and pinned in atom.gap.quotes}

    def quote(self, covered: Atom, pinned: tuple[str, str]) -> set[int]:
        """Add a pinned passage to the gap that covers an atom. Return the place of the gap, whose text is to be made anew."""
        place = self.covering(covered)
        atom = self.atoms[place] if place is not None else None
        if place is None or atom is None or atom.gap is None or pinned in atom.gap.quotes:
            return set()
        gap = msgspec.structs.replace(atom.gap, quotes=(*atom.gap.quotes, pinned))
        self.atoms[place] = msgspec.structs.replace(atom, gap=gap)
        return {place}

    def _call_numbers(self, entry: Entry) -> list[int]:
        parts = entry.body.parts if isinstance(entry.body, Message) else ()
        return [i for i, part in enumerate(parts) if isinstance(part, ToolCall)]

    def _seam(self) -> Size:
        """Return the size of the user turn that some providers require between two replies, and before the first."""
        for atom in reversed(self.atoms):
            if atom.kind == "system":
                break
            if atom.gap or any(not item.is_silent for item in atom.items):
                return SEAM if atom.kind == "assistant" else NOTHING
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
        size = total((atom.size, item.size, *map(self._maker.placeholder, wire_ids)))
        answers = atom.answers + (None,) * len(wire_ids)
        joined = Atom("tools", (*atom.items, item), size, atom.wire_ids + wire_ids, answers, seam=atom.seam)
        self._replace(index, joined)
        self._place[item.id] = index

    def _wire_id(self, original: str, entry_id: str, part: int) -> str:
        """Return the provider's id if every provider accepts it and no other call has it; else a derived one."""
        wire_id = original
        if not _USABLE_ID.match(original) or original in self._wire_ids:
            wire_id = "call_" + hashlib.sha256(f"{entry_id}/{part}".encode()).hexdigest()[:24]
        self._wire_ids.add(wire_id)
        return wire_id

    def _results(self, item: Item, message: Message) -> _Answered:
        """Add a tool message to the open reply, or as a note of its own. Return the calls that it answered."""
        answered = self._answer(self.open_reply, item, message) if self.open_reply is not None else None
        if answered is None:
            item = msgspec.structs.replace(item, repair=item.repair or "no open call has this id; shown as a note")
            self._push(Atom("user", (item,), note_size(item)))
        return answered or []

    def _answer(self, index: int, item: Item, message: Message) -> _Answered | None:
        """Give the results to the open calls of this atom and return those calls; None if no result belongs here."""
        atom = self.atoms[index]
        answers, shown, size, known = list(atom.answers), list(item.shown), atom.size, False
        asked, answered = self._asked(atom), _Answered()
        calls = asked.calls
        for i, part in enumerate(message.parts):
            same = asked.places.get(part.call, []) if isinstance(part, ToolResult) else []
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
            if atom.kind == "tools":
                shown[i] = self._maker.with_wire_id(shown[i], atom.wire_ids[free])
                size -= self._maker.placeholder(atom.wire_ids[free])
        if not known:
            return None
        item = msgspec.structs.replace(item, shown=tuple(shown))
        if atom.kind != "tools":
            item = hide(item, ENDED_EARLY)
        size += item.size
        items = (*atom.items, item)
        self._replace(index, Atom(atom.kind, items, size, atom.wire_ids, tuple(answers), seam=atom.seam))
        self._place[item.id] = index
        return answered

    def apply(self, items: Iterable[FoldItem], seq: int = 0, first: int = 0) -> bool:
        """Show these parts and ranges by their stand-ins, except pinned ones. Return whether any of them was there.

        `seq` is the position of their mark in the log, 0 while they are only planned; `first` is the number of the first of
        them in that mark.
        """
        applied = False
        for number, item in enumerate(items, first):
            match item:
                case PartFold():
                    applied |= self._fold_part(item, (seq, number))
                case RangeFold():
                    applied |= self._fold_range(item, (seq, number))
        return applied

    def settled_fold(self, item: FoldItem) -> FoldItem:
        """Return a fold with the decisions that it takes on this transcript."""
        return msgspec.structs.replace(item, cover=self._cover(item)) if isinstance(item, RangeFold) else item

    def covered_by(self, fold: RangeFold) -> Iterator[int]:
        """Yield the positions in the log of the messages that this fold covers and no fold before it did."""
        first, last = self._place.get(fold.first), self._place.get(fold.last)
        if first is not None and last is not None:
            is_left_out = _left_out(fold)
            for atom in self.atoms[first : last + 1]:
                yield from (item.seq for item in atom.items if not is_left_out(atom))

    def shrinks(self, fold: FoldItem) -> bool:
        """Return whether the fold makes the transcript smaller: a stand-in may be longer than its original."""
        if isinstance(fold, PartFold):
            if (place := self._part_place(fold)) is None:
                return False
            atom, at = self.atoms[place[0]], place[1]
            item = atom.items[at]
            before = item.shown[fold.part].size
            return self._maker.is_foldable(item, fold) and self._maker.stand_in(atom, at, fold).size.is_less_than(
                before
            )
        first, last = self._place.get(fold.first), self._place.get(fold.last)
        if first is None or last is None:
            return False
        going = [atom for atom in self.atoms[first : last + 1] if not atom.is_held]
        text = self._maker.quoting(fold.text, self._quotes(going))
        return self._maker.gap_size(text).is_less_than(total(atom.size for atom in going))

    def _part_place(self, fold: PartFold) -> tuple[int, int] | None:
        """Return the atom and the item of a part; None if it is covered or there is no such part."""
        index = self._place.get(fold.entry)
        if index is None or self.atoms[index].gap is not None:
            return None
        items = self.atoms[index].items
        at = next(i for i, item in enumerate(items) if item.id == fold.entry)
        return (index, at) if 0 <= fold.part < len(items[at].shown) else None

    def _fold_part(self, fold: PartFold, ref: tuple[int, int]) -> bool:
        place = self._part_place(fold)
        if place is None:
            return False
        index, at = place
        atom = self.atoms[index]
        if atom.items[at].pinned:
            return False
        self._opaque.drop(fold.entry, fold.part)
        folded = self._maker.with_fold(atom, at, fold, ref)
        self._replace(index, folded)
        if folded.items[at].is_silent != atom.items[at].is_silent:
            self._reseam()
        return True

    def _cover(self, fold: RangeFold) -> Cover | None:
        """Return the decisions of a range fold on this transcript; None if it has no effect."""
        first, last = self._place.get(fold.first), self._place.get(fold.last)
        if first is None or last is None or first > last:
            return None
        atoms, opener = self.atoms[first : last + 1], loop_opener(self.atoms)
        return Cover(
            held=tuple(atom.first for atom in atoms if atom.is_held),
            opener=self.atoms[opener].first if opener is not None and opener < first else "",
            raw_tokens=tuple(
                sum(atom.raw_tokens for atom in run) for held, run in groupby(atoms, _is_held) if not held
            ),
        )

    def _fold_range(self, fold: RangeFold, ref: tuple[int, int]) -> bool:
        cover = fold.cover or self._cover(fold)
        first, last = self._place.get(fold.first), self._place.get(fold.last)
        if cover is None or first is None or last is None or first > last:
            return False
        text, kept, gaps, raw = fold.text, list[Atom](), list[Atom](), iter(cover.raw_tokens)
        opener = self._place.get(cover.opener)
        for is_left_out, run in groupby(self.atoms[first : last + 1], _left_out(fold)):
            if is_left_out:
                kept.extend(run)
            else:
                # A user turn inside a running loop would end it, so gaps of the loop are placed before its opener.
                places = gaps if opener is not None else kept
                places.append(self._gap(list(run), fold, text, ref, next(raw, 0)))
                text = None  # one stand-in for the range, even if a pin splits it
        self.atoms[first : last + 1] = kept
        if opener is not None:
            self.atoms[opener:opener] = gaps
        self._mark_changed(first if opener is None else min(opener, first))
        self._recount()
        return True

    def _quotes(self, run: list[Atom]) -> tuple[tuple[str, str], ...]:
        """Return the pinned passages of these atoms, each with its entry, including those of atoms covered before."""
        ids = {item.id for atom in run for item in atom.items}
        before = [quote for atom in run if atom.gap for quote in atom.gap.quotes]
        return *before, *sorted((pair for pair in self.projection.pins.quotes if pair[0] in ids), key=itemgetter(1, 0))

    def _gap(self, run: list[Atom], fold: RangeFold, text: str | None, ref: tuple[int, int], raw: int) -> Atom:
        entries = sum(atom.gap.entries if atom.gap else len(atom.items) for atom in run)
        newest = max(atom.newest for atom in run)
        spans = [atom.gap.span if atom.gap else (atom.items[0].seq, atom.items[0].seq) for atom in run]
        quotes = self._quotes(run)
        words = self._maker.quoting(text or "", quotes)
        gap = Gap(
            run[0].first, run[-1].last, newest, entries, raw, words, fold.level, fold.policy, fold.because,
            quotes, ref, text is not None, (min(span[0] for span in spans), max(span[1] for span in spans)),
        )  # fmt: skip
        return Atom("gap", (), self._maker.gap_size(words), gap=gap)

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
        self._opaque = self._opaque.of({item.id for atom in self.atoms for item in atom.items})
        self._reseam()
        self.size = total(atom.size for atom in self.atoms)
        if self.open_reply is not None:
            replies = [i for i, atom in enumerate(self.atoms) if atom.kind in ("tools", "hidden", "assistant")]
            self.open_reply = replies[-1] if replies and self.atoms[replies[-1]].wire_ids else None

    def _reseam(self) -> None:
        """Size the turns of the user between two replies anew, after the atoms before a reply have changed."""
        before: str | None = None
        for i, atom in enumerate(self.atoms):
            if atom.kind in ("assistant", "tools"):
                seam = _OPENING if before is None else SEAM if before == "assistant" else NOTHING
                if seam != atom.seam:
                    self.size += seam - atom.seam
                    self.atoms[i] = msgspec.structs.replace(atom, size=atom.size - atom.seam + seam, seam=seam)
            if atom.kind == "system":
                before = None
            elif atom.gap or any(not item.is_silent for item in atom.items):
                before = atom.kind


def _asks(part: Part) -> bool:
    """Return whether a part of a user message may be the request: it is neither empty nor a harness's text."""
    return not isinstance(part, Text) or (bool(part.text.strip()) and bool(user_words(part.text)))


def _is_held(atom: Atom) -> bool:
    return atom.is_held


def _left_out(fold: RangeFold) -> Callable[[Atom], bool]:
    """Return the rule by which a range fold leaves atoms out: as it was decided, or by the view where that is not recorded."""
    if fold.cover is None:
        return _is_held
    held = frozenset(fold.cover.held)
    return lambda atom: atom.first in held
