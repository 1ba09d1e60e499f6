"""Showing parts and ranges by their stand-ins: what a fold does to the atoms of a view."""

from collections.abc import Iterable, Iterator

import msgspec

from foveal.project.atoms import Atoms
from foveal.text.stand_in import part_text, replace_part
from foveal.values.entry import FoldItem, Opaque, Part, PartFold, RangeFold, Text, ToolCall, ToolResult
from foveal.values.pins import with_quotes
from foveal.values.retention import is_below
from foveal.values.shown import MESSAGE_TOKENS, NOTHING, Atom, Gap, Item, ResultPlace, Shown, Size, total

SUMMARISED = "summarise"
"""The policy whose folds share one summary."""

SEAM = Size(MESSAGE_TOKENS + 4, 64)
"""A turn of the user between two replies, which some providers want."""


class Folding(Atoms):
    """Atoms that can be folded."""

    def apply(self, items: Iterable[FoldItem]) -> None:
        """Show these parts and ranges by their stand-ins. Pinned entries stay as they are."""
        items = list(items)
        summaries = [item for item in items if isinstance(item, RangeFold) and item.policy == SUMMARISED]
        self.said = next(((one.prose, one.author) for one in summaries if one.level == "summary"), self.said)
        if known := next((item.state for item in reversed(summaries) if item.state), ""):
            self.carried, self.owed = known, ()
        elif places := tuple(sorted({place for item in summaries for place in self.places(item)})):
            self.owed = (*self.owed, places)
        for item in items:
            match item:
                case PartFold():
                    self._fold_part(item)
                case RangeFold():
                    self._fold_range(item)

    def places(self, fold: RangeFold) -> Iterator[int]:
        """Where the messages are that this fold covers and no fold before it did."""
        first, last = self._place.get(fold.first), self._place.get(fold.last)
        if first is not None and last is not None:
            for atom in self.atoms[first : last + 1]:
                yield from (item.seq for item in atom.items if not atom.is_held)

    def shrinks(self, fold: FoldItem) -> bool:
        """Whether the view would be smaller with this fold: a stand-in may be longer than what it stands for."""
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
        """The atom and the item of a part that can be folded; None if it is pinned, covered, not shown or at its floor."""
        index = self._place.get(fold.entry)
        if index is None or fold.entry in self.lens.pins.entries or self.atoms[index].gap is not None:
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
        sent = sent_as(part, _wire_id_at(atom, ResultPlace(at, fold.part)))
        size = self.lens.measure.part(sent) if sent else NOTHING
        return msgspec.structs.replace(
            before, part=part, size=size, level=fold.level, policy=fold.policy, because=fold.because
        )

    def _fold_part(self, fold: PartFold) -> None:
        place = self._foldable_part(fold)
        if place is None:
            return
        index, at = place
        atom = self.atoms[index]
        item = atom.items[at]
        shown = list(item.shown)
        if isinstance(part := shown[fold.part].part, Opaque):
            self._opaque.discard(part.json)
        shown[fold.part] = self._stand_in(index, at, fold)
        self.is_reduced = True
        folded = msgspec.structs.replace(item, shown=tuple(shown))
        items = (*atom.items[:at], folded, *atom.items[at + 1 :])
        self._replace(index, msgspec.structs.replace(atom, items=items, size=atom.size - item.size + folded.size))

    def _fold_range(self, fold: RangeFold) -> None:
        first, last = self._place.get(fold.first), self._place.get(fold.last)
        if first is None or last is None or first > last:
            return
        text, kept, gaps = fold.text, list[Atom](), list[Atom]()
        opener = self.loop_opener()
        in_loop = opener is not None and opener < first
        for held, run in _runs(self.atoms[first : last + 1]):
            if held:
                kept.extend(run)
            else:
                # A word of the user inside a running loop would end it, so what is covered there is told before it.
                (gaps if in_loop else kept).append(self._gap(run, fold, text))
                text = ""  # one stand-in for the range, even if a pin splits it
        self.is_reduced = True
        self.atoms[first : last + 1] = kept
        if opener is not None and in_loop:
            self.atoms[opener:opener] = gaps
        self.changed_from = min(self.changed_from, opener if opener is not None and in_loop else first)
        self._recount()

    def _quotes(self, run: list[Atom]) -> list[str]:
        """The pinned passages of these atoms, also of those that were covered before."""
        ids = [item.id for atom in run for item in atom.items]
        before = [quote for atom in run if atom.gap for quote in atom.gap.quotes]
        return [*before, *self.lens.pins.quotes_of(ids, self._quote).values()]

    def _quotes_in(self, item: Item, index: int) -> list[str]:
        """The pinned passages of this part.

        A passage that ends in the middle of what could be taken for the frame stands nowhere as it is shown alone: it is of
        every part that has words, rather than of none.
        """
        words = [part_text(shown.part) for shown in item.shown]
        quotes = self.lens.pins.quotes_of((item.id,), self._quote)
        found = {raw: [shown in text or raw in text for text in words] for raw, shown in quotes.items()}
        return [quotes[raw] for raw, places in found.items() if words[index] and (places[index] or not any(places))]

    def _quote(self, text: str) -> str:
        return part_text(self.lens.guard(Text(text)))

    def _gap(self, run: list[Atom], fold: RangeFold, text: str) -> Atom:
        entries = sum(atom.gap.entries if atom.gap else len(atom.items) for atom in run)
        raw = sum(atom.raw_tokens for atom in run)
        newest = max(atom.newest for atom in run)
        quotes = tuple(self._quotes(run))
        text = with_quotes(text, quotes)
        said = text, fold.level, fold.policy, fold.because
        gap = Gap(run[0].first, run[-1].last, newest, entries, raw, *said, quotes)
        return Atom("gap", (), self._gap_size(text), gap=gap)

    def _gap_size(self, text: str) -> Size:
        # Without a text, the pins on both sides of it stand next to each other: two replies in a row.
        return self.lens.measure.text(text) + Size(MESSAGE_TOKENS, 32) if text.strip() else SEAM


def sent_as(part: Part | None, wire_id: str | None) -> Part | None:
    """The part with the id that ties a call to its result on the wire."""
    match part:
        case ToolCall(call_id) if wire_id is not None and call_id != wire_id:
            return msgspec.structs.replace(part, id=wire_id)
        case ToolResult(call) if wire_id is not None and call != wire_id:
            return msgspec.structs.replace(part, call=wire_id)
        case _:
            return part


def _wire_id_at(atom: Atom, place: ResultPlace) -> str | None:
    """The wire id of the call or the result at this place; None for other parts and other atoms."""
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


def _runs(atoms: list[Atom]) -> Iterator[tuple[bool, list[Atom]]]:
    """The atoms as runs that are held or not."""
    run: list[Atom] = []
    for atom in atoms:
        if run and run[-1].is_held != atom.is_held:
            yield run[-1].is_held, run
            run = []
        run.append(atom)
    if run:
        yield run[-1].is_held, run
