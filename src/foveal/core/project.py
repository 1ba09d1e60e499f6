"""From the log to the view, one entry at a time.

Theory of operation. `View.feed` takes the entries of one branch in order and keeps the list of atoms that the next prompt
would show, with its size. What an entry does to the view depends on nothing but the entries before it and the lens, so that
feeding one by one, feeding all at once and resuming from a snapshot give the same view.

Three things are repaired here, in the view only, and named on the item: results that came late, twice or for no known call;
ids that a provider would refuse; and replies that were cut off. The log keeps what really happened.

Some entries change how earlier ones are shown: a pin, a rewind, another model. The view does not patch itself for them; it
says `stale`, and whoever holds the log feeds it again through the new lens. They are rare, and one way to build is enough.
"""

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

import msgspec

from foveal.core.entry import (
    Entry,
    Fold,
    FoldItem,
    Message,
    Opaque,
    Part,
    PartFold,
    Pin,
    RangeFold,
    Rewind,
    Setup,
    Text,
    ToolCall,
    ToolResult,
    Unpin,
    Usage,
)
from foveal.core.measure import Measure
from foveal.core.repair import json_object, normal
from foveal.core.stand_in import holds_artifact, replace_part, stored_preview
from foveal.core.view import (
    MESSAGE_TOKENS,
    NOTHING,
    SYNTHETIC_RESULT,
    Answer,
    Atom,
    Gap,
    Item,
    Shown,
    Size,
    short_ref,
    total,
)

Hides: TypeAlias = Callable[[Part, str | None], str]
"""Why the dialect will not send this part, written by this model; empty if it will."""

# 40 characters: the shortest limit that a provider was seen to enforce on call ids.
_USABLE_ID = re.compile(r"[a-zA-Z0-9_-]{1,40}\Z")
_USAGE_KEPT = 16
# What dialects may add around an item: a label on a late result or on a system message among the others, a turn of the
# user between two replies, and one before a reply that nobody asked for.
_LATE = Size(8, 64)
_LABEL = Size(8, 32)
_SEAM = Size(MESSAGE_TOKENS + 4, 64)
_OPENING = Size(MESSAGE_TOKENS + 16, 128)


class Lens(msgspec.Struct, frozen=True):
    """What the log is looked at through: what the provider can take, how it counts, and what is pinned."""

    key: str
    measure: Measure
    hides: Hides
    pins: frozenset[str] = frozenset()


class Frozen(msgspec.Struct, frozen=True, omit_defaults=True):
    """Everything that a view is, in one value: what a snapshot holds."""

    key: str
    pins: tuple[str, ...]
    seq: int
    head: str | None
    calls: int
    folds: int
    first_user: str | None
    last_user: str | None
    setup_seq: int
    raw_tokens: int
    usage: tuple[tuple[int, int], ...]
    size: Size
    open_atom: int | None
    atoms: tuple[Atom, ...]


_KEPT = ("seq", "head", "calls", "folds", "first_user", "last_user", "setup_seq", "usage", "size", "raw_tokens")


class View:
    """The atoms of one branch as the next prompt would show them."""

    def __init__(self, lens: Lens) -> None:
        self.lens = lens
        self.atoms: list[Atom] = []
        self.size = NOTHING
        self.raw_tokens = 0
        self.stale = False
        self.seq = 0
        self.head: str | None = None
        self.calls = 0
        self.folds = 0
        self.first_user: str | None = None
        self.last_user: str | None = None
        self.setup: Setup | None = None
        self.setup_seq = 0
        self.usage: tuple[tuple[int, int], ...] = ()
        self.changed_from = 0
        """The first atom that changed since somebody last set this to the number of atoms."""
        self._place: dict[str, int] = {}
        self._wire_ids: set[str] = set()
        self._opaque: set[str] = set()
        self._open: int | None = None

    # -- reading ------------------------------------------------------------------------------------------------------

    def place(self, entry_id: str) -> int | None:
        """Which atom shows this entry; for a gap, only its first and last entry are known."""
        return self._place.get(entry_id)

    @property
    def settled(self) -> int:
        """How many leading atoms no further message can change."""
        return len(self.atoms) - 1 if self._open is None else min(self._open, len(self.atoms) - 1)

    def copy(self) -> "View":
        """A view that can be folded further without touching this one."""
        twin = View.__new__(View)
        twin.__dict__.update(self.__dict__)
        twin.atoms, twin._place = list(self.atoms), dict(self._place)
        twin._wire_ids, twin._opaque = set(self._wire_ids), set(self._opaque)
        return twin

    def freeze(self, atoms: tuple[Atom, ...]) -> "Frozen":
        """Everything that this view is, with these atoms for its own."""
        return Frozen(
            key=self.lens.key,
            pins=tuple(sorted(self.lens.pins)),
            open_atom=self._open,
            atoms=atoms,
            **{name: getattr(self, name) for name in _KEPT},
        )

    @classmethod
    def thawed(cls, lens: Lens, frozen: "Frozen", atoms: list[Atom], setup: Setup | None) -> "View":
        view = cls(lens)
        for name in _KEPT:
            setattr(view, name, getattr(frozen, name))
        view.atoms, view.setup = atoms, setup
        view._recount()
        view._open = frozen.open_atom
        return view

    # -- feeding ------------------------------------------------------------------------------------------------------

    def feed(self, seq: int, entry: Entry) -> None:
        """Take the next entry of the branch into account."""
        match entry.body:
            case Message() as message:
                self._message(seq, entry.id, message)
            case Fold(items):
                self.apply(items)
                self.folds += 1
            case Pin(target):
                self.stale |= target not in self.lens.pins
            case Unpin(target):
                self.stale |= target in self.lens.pins
            case Rewind():
                self.stale |= entry.parent != self.head
            case Usage() as usage if usage.estimated:
                self.usage = (*self.usage, (usage.estimated, usage.input_tokens))[-_USAGE_KEPT:]
            case Setup() as setup:
                self.setup, self.setup_seq = setup, seq
            case _:
                pass
        self.seq, self.head = seq, entry.id

    def apply(self, items: Iterable[FoldItem]) -> None:
        """Show these parts and ranges by their stand-ins. Pinned entries stay as they are."""
        for item in items:
            match item:
                case PartFold():
                    self._fold_part(item)
                case RangeFold():
                    self._fold_range(item)

    # -- messages -----------------------------------------------------------------------------------------------------

    def measure(self, message: Message) -> int:
        """How many tokens a message takes in full."""
        return MESSAGE_TOKENS * (message.role != "tool") + sum(self.lens.measure.part(p).tokens for p in message.parts)

    def _message(self, seq: int, entry_id: str, message: Message) -> None:
        self.calls += message.role == "assistant"
        if message.role == "tool":
            return self._results(seq, entry_id, message)
        item = self._item(seq, entry_id, message)
        match message.role:
            case "assistant":
                self._assistant(item, message)
            case "system":
                leading = all(atom.kind == "system" for atom in self.atoms[-1:])
                size = item.size if leading else item.size + _LABEL
                self._push(Atom("system" if leading else "user", (item,), size))
            case _:
                if not item.is_silent:  # who says nothing asks for nothing
                    self.first_user = self.first_user or entry_id
                    self.last_user = entry_id
                self._push(Atom("user", (item,), item.size))
        return None

    def _item(self, seq: int, entry_id: str, message: Message) -> Item:
        shown = tuple(self._show(part, message, short_ref(entry_id, i)) for i, part in enumerate(message.parts))
        self.raw_tokens += sum(s.raw_tokens for s in shown) + MESSAGE_TOKENS * (message.role != "tool")
        repair = "" if shown else "the message is empty"
        return Item(seq, entry_id, message.role, shown, message.model, entry_id in self.lens.pins, repair)

    def _show(self, part: Part, message: Message, ref: str) -> Shown:
        """A part as it is shown on arrival."""
        measure = self.lens.measure
        if isinstance(part, Opaque) and json_object(part.json) is None:
            return Shown(None, NOTHING, measure.part(part).tokens, "hidden", "repair", "not a JSON object")
        if reason := self.lens.hides(part, message.model):
            return Shown(None, NOTHING, measure.part(part).tokens, "hidden", "dialect", reason)
        if isinstance(part, Text) and not part.text.strip() and not part.signature:
            return Shown(None, NOTHING, 0, "hidden", "repair", "empty text")
        if isinstance(part, Opaque):
            if part.json in self._opaque:
                because = "the very same part is shown already; providers refuse it twice"
                return Shown(None, NOTHING, measure.part(part).tokens, "hidden", "repair", because)
            self._opaque.add(part.json)
        raw = measure.part(part)
        mended, wrong = normal(part)
        if holds_artifact(mended):
            small = stored_preview(mended, ref)
            because = "too large for the log; head and tail of the artifact"
            return Shown(small, measure.part(small), raw.tokens, "trimmed", "arrival", because)
        if wrong:
            return Shown(mended, measure.part(mended), raw.tokens, "full", "repair", wrong)
        return Shown(mended, raw, raw.tokens)

    def _assistant(self, item: Item, message: Message) -> None:
        calls = [(i, part) for i, part in enumerate(message.parts) if isinstance(part, ToolCall)]
        if message.stop != "done":
            self._opaque -= {s.part.json for s in item.shown if isinstance(s.part, Opaque)}
            hidden = _hide(item, f"the reply ended with {message.stop}")
            self._push(Atom("hidden", (hidden,), NOTHING, tuple(c.id for _, c in calls), (None,) * len(calls)))
            self._open = len(self.atoms) - 1 if calls else None
            return
        wire_ids = tuple(self._wire_id(call.id, item.id, i) for i, call in calls)
        item = self._with_wire_ids(item, [i for i, _ in calls], wire_ids)
        if self._is_split_reply(message.model):
            self._join_reply(item, wire_ids)
            return
        if not calls:
            self._open = None
            self._push(Atom("assistant", (item,), item.size + self._seam()))
            return
        size = total((item.size, self._seam(), *map(self._missing, wire_ids)))
        self._push(Atom("tools", (item,), size, wire_ids, (None,) * len(calls)))
        self._open = len(self.atoms) - 1

    def _missing(self, wire_id: str) -> Size:
        """What the result takes that has to be made up for a call."""
        return self.lens.measure.part(ToolResult(wire_id, (Text(SYNTHETIC_RESULT),)))

    def _seam(self) -> Size:
        """Some providers want a word of the user between two replies, and before the first."""
        for atom in reversed(self.atoms):
            if atom.kind == "system":
                break
            if atom.gap or any(not item.is_silent for item in atom.items):
                return _SEAM if atom.kind == "assistant" else NOTHING
        return _OPENING

    def _is_split_reply(self, model: str | None) -> bool:
        """Whether the last atom is this model's reply, with calls that nobody has answered: recorders split replies."""
        if self._open is None or self._open != len(self.atoms) - 1:
            return False
        atom = self.atoms[self._open]
        return atom.kind == "tools" and not any(atom.answers) and atom.items[0].model == model

    def _join_reply(self, item: Item, wire_ids: tuple[str, ...]) -> None:
        index = len(self.atoms) - 1
        atom = self.atoms[index]
        item = msgspec.structs.replace(item, repair="joined to the reply before it, which it continues")
        size = total((atom.size, item.size, *map(self._missing, wire_ids)))
        answers = atom.answers + (None,) * len(wire_ids)
        self._replace(index, Atom("tools", (*atom.items, item), size, atom.wire_ids + wire_ids, answers))
        self._place[item.id] = index

    def _wire_id(self, original: str, entry_id: str, part: int) -> str:
        """The provider's id where every provider takes it and nothing else in the view has it; else one of our own."""
        wire_id = original
        if not _USABLE_ID.match(original) or original in self._wire_ids:
            wire_id = "call_" + hashlib.sha256(f"{entry_id}/{part}".encode()).hexdigest()[:24]
        self._wire_ids.add(wire_id)
        return wire_id

    def _with_wire_ids(self, item: Item, places: list[int], wire_ids: tuple[str, ...]) -> Item:
        """The item measured with the ids that are sent, which may be longer than the recorded ones."""
        shown = list(item.shown)
        for i, wire_id in zip(places, wire_ids, strict=True):
            shown[i] = self._with_wire_id(shown[i], wire_id)
        return msgspec.structs.replace(item, shown=tuple(shown))

    def _with_wire_id(self, shown: Shown, wire_id: str) -> Shown:
        sent = _sent_as(shown.part, wire_id)
        if sent is None or sent is shown.part:
            return shown
        return msgspec.structs.replace(shown, size=self.lens.measure.part(sent))

    # -- results ------------------------------------------------------------------------------------------------------

    def _results(self, seq: int, entry_id: str, message: Message) -> None:
        item = self._item(seq, entry_id, message)
        if self._open is None or not self._answer(self._open, item, message):
            item = msgspec.structs.replace(item, repair=item.repair or "no open call has this id; shown as a note")
            notes = [_LATE] * sum(shown.part is not None for shown in item.shown)
            self._push(Atom("user", (item,), total((item.size, *notes, Size(MESSAGE_TOKENS, 32)))))

    def _answer(self, index: int, item: Item, message: Message) -> bool:
        """Give the results to the open calls of this atom; False if none of them belongs here."""
        atom = self.atoms[index]
        answers, shown, size, known = list(atom.answers), list(item.shown), atom.size, False
        # A reply that ended early shows no calls any more; it keeps the recorded ids in place of wire ids.
        ids = atom.wire_ids if atom.kind == "hidden" else [call.id for call in calls_of(atom)]
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
            answers[free] = Answer(len(atom.items), i)
            shown[i] = self._with_wire_id(shown[i], atom.wire_ids[free])
            size -= self._missing(atom.wire_ids[free])
        if not known:
            return False
        item = msgspec.structs.replace(item, shown=tuple(shown))
        if atom.kind == "hidden":
            item, size = _hide(item, "the reply that asked for it ended early"), NOTHING
        size += item.size
        self._replace(index, Atom(atom.kind, (*atom.items, item), size, atom.wire_ids, tuple(answers)))
        self._place[item.id] = index
        return True

    # -- folds --------------------------------------------------------------------------------------------------------

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
        before = total(atom.size for atom in self.atoms[first : last + 1] if not atom.pinned)
        return self._gap_size(fold.text).is_less_than(before)

    def _foldable_part(self, fold: PartFold) -> tuple[int, int] | None:
        """The atom and the item of a part that can be folded; None if it is pinned, covered or not shown."""
        index = self._place.get(fold.entry)
        if index is None or fold.entry in self.lens.pins or self.atoms[index].gap is not None:
            return None
        items = self.atoms[index].items
        at = next(i for i, item in enumerate(items) if item.id == fold.entry)
        is_shown = 0 <= fold.part < len(items[at].shown) and items[at].shown[fold.part].part is not None
        return (index, at) if is_shown else None

    def _stand_in(self, index: int, at: int, fold: PartFold) -> Shown:
        atom = self.atoms[index]
        before = atom.items[at].shown[fold.part]
        part = replace_part(before.part, fold.text)
        sent = _sent_as(part, _wire_id_at(atom, Answer(at, fold.part)))
        size = self.lens.measure.part(sent) if sent else NOTHING
        return Shown(part, size, before.raw_tokens, fold.level, fold.policy, fold.because)

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
        folded = msgspec.structs.replace(item, shown=tuple(shown))
        items = (*atom.items[:at], folded, *atom.items[at + 1 :])
        self._replace(index, msgspec.structs.replace(atom, items=items, size=atom.size - item.size + folded.size))

    def _fold_range(self, fold: RangeFold) -> None:
        first, last = self._place.get(fold.first), self._place.get(fold.last)
        if first is None or last is None or first > last:
            return
        text, atoms, gaps = fold.text, self.atoms[first : last + 1], list[Atom]()
        for pinned, run in _runs(atoms):
            if pinned:
                gaps.extend(run)
            else:
                gaps.append(self._gap(run, fold, text))
                text = ""  # one stand-in for the range, even if a pin splits it
        self.atoms[first : last + 1] = gaps
        self.changed_from = min(self.changed_from, first)
        self._recount()

    def _gap(self, run: list[Atom], fold: RangeFold, text: str) -> Atom:
        entries = sum(atom.gap.entries if atom.gap else len(atom.items) for atom in run)
        raw = sum(atom.raw_tokens for atom in run)
        newest = max(atom.newest for atom in run)
        gap = Gap(run[0].first, run[-1].last, newest, entries, raw, text, fold.level, fold.policy, fold.because)
        return Atom("gap", (), self._gap_size(text), gap=gap)

    def _gap_size(self, text: str) -> Size:
        # Without a text, the pins on both sides of it stand next to each other: two replies in a row.
        return self.lens.measure.text(text) + Size(MESSAGE_TOKENS, 32) if text.strip() else _SEAM

    def _recount(self) -> None:
        """After atoms have moved: where everything is, how large it is, and which ids are taken."""
        self._place = {entry: i for i, atom in enumerate(self.atoms) for entry in _named(atom)}
        self._wire_ids = {wire_id for atom in self.atoms if atom.kind == "tools" for wire_id in atom.wire_ids}
        shown = (s.part for atom in self.atoms for item in atom.items for s in item.shown)
        self._opaque = {part.json for part in shown if isinstance(part, Opaque)}
        self.size = total(atom.size for atom in self.atoms)
        if self._open is not None:
            replies = [i for i, atom in enumerate(self.atoms) if atom.kind in ("tools", "hidden", "assistant")]
            self._open = replies[-1] if replies and self.atoms[replies[-1]].wire_ids else None

    # -- places -------------------------------------------------------------------------------------------------------

    def _push(self, atom: Atom) -> None:
        for entry in _named(atom):
            self._place[entry] = len(self.atoms)
        self.atoms.append(atom)
        self.size += atom.size

    def _replace(self, index: int, atom: Atom) -> None:
        self.size += atom.size - self.atoms[index].size
        self.atoms[index] = atom
        self.changed_from = min(self.changed_from, index)


def calls_of(atom: Atom) -> Iterator[ToolCall]:
    """The calls of an atom in order, with the ids that they were recorded with."""
    for item in atom.items:
        if item.role == "assistant":
            for shown in item.shown:
                if isinstance(shown.part, ToolCall):
                    yield shown.part


def _sent_as(part: Part | None, wire_id: str | None) -> Part | None:
    """The part with the id that ties a call to its result on the wire."""
    match part:
        case ToolCall(call_id) if wire_id is not None and call_id != wire_id:
            return msgspec.structs.replace(part, id=wire_id)
        case ToolResult(call) if wire_id is not None and call != wire_id:
            return msgspec.structs.replace(part, call=wire_id)
        case _:
            return part


def _wire_id_at(atom: Atom, place: Answer) -> str | None:
    """The wire id of the call or the result at this place; None for other parts and other atoms."""
    if atom.kind != "tools":
        return None
    if place in atom.answers:
        return atom.wire_ids[atom.answers.index(place)]
    calls = [
        Answer(at, i)
        for at, item in enumerate(atom.items)
        for i, shown in enumerate(item.shown)
        if isinstance(shown.part, ToolCall)
    ]
    return atom.wire_ids[calls.index(place)] if place in calls else None


def collect_pins(entries: Iterable[Entry]) -> frozenset[str]:
    """Which entries are pinned at the end of this branch."""
    pins = set[str]()
    for entry in entries:
        match entry.body:
            case Pin(target):
                pins.add(target)
            case Unpin(target):
                pins.discard(target)
            case _:
                pass
    return frozenset(pins)


def _hide(item: Item, because: str) -> Item:
    shown = tuple(Shown(None, NOTHING, s.raw_tokens, "hidden", "repair", because) for s in item.shown)
    return msgspec.structs.replace(item, shown=shown)


def _named(atom: Atom) -> Iterator[str]:
    if atom.gap:
        yield from (atom.gap.first, atom.gap.last)
    for item in atom.items:
        yield item.id


def _runs(atoms: list[Atom]) -> Iterator[tuple[bool, list[Atom]]]:
    """The atoms as runs that are pinned or not."""
    run: list[Atom] = []
    for atom in atoms:
        if run and run[-1].pinned != atom.pinned:
            yield run[-1].pinned, run
            run = []
        run.append(atom)
    if run:
        yield run[-1].pinned, run
