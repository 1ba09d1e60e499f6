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
from collections.abc import Iterable

import msgspec

from foveal.project.atoms import calls_of
from foveal.project.folding import SEAM, Folding, sent_as
from foveal.project.projection import CHECKPOINT_TOOL, RECALL_TOOL, SEARCH_TOOL, Projection
from foveal.text.repair import json_object
from foveal.text.stand_in import holds_artifact, replace_part, stored_preview
from foveal.text.user_words import user_words
from foveal.values.blocks import standing
from foveal.values.entry import (
    ONCE,
    Entry,
    Fence,
    Fold,
    Message,
    Opaque,
    Overflow,
    Part,
    Pin,
    PromptContext,
    Rewind,
    Setup,
    Stored,
    Text,
    ToolCall,
    ToolResult,
    Unpin,
    Usage,
)
from foveal.values.pins import Pins
from foveal.values.shown import (
    MESSAGE_TOKENS,
    NOTHING,
    SYNTHETIC_RESULT,
    Atom,
    Item,
    ResultPlace,
    Shown,
    Size,
    short_ref,
    total,
)

ATTACHED = "file"
"""The author of what is attached rather than said."""

PROJECTION = 4
"""Raised whenever the same log gives another view: snapshots of an older one are not read."""

# 40 characters: the shortest limit that a provider was seen to enforce on call ids.
_USABLE_ID = re.compile(r"[a-zA-Z0-9_-]{1,40}\Z")
_USAGE_KEPT = 16
# What dialects may add around an item: a label on a late result or on a system message among the others, a turn of the
# user between two replies, and one before a reply that nobody asked for.
_LATE = Size(8, 64)
_LABEL = Size(8, 32)
_OPENING = Size(MESSAGE_TOKENS + 16, 128)


class Frozen(msgspec.Struct, frozen=True, omit_defaults=True):
    """Everything that a view is, in one value: what a snapshot holds."""

    key: str
    pins: Pins
    seq: int
    head: str | None
    calls: int
    folds: int
    first_user: str | None
    last_user: str | None
    setup_seq: int
    raw_tokens: int
    is_reduced: bool
    carried: str
    said: tuple[str, str]
    owed: tuple[tuple[int, ...], ...]
    recalled: dict[str, int]
    ceilings: dict[str, int]
    overflows: int
    checkpoint: str
    fences: tuple[Fence, ...]
    beside: PromptContext | None
    reminded: dict[str, int]
    decided: Fold | None
    turns: int
    first: str
    called_ms: int
    fold_calls: int
    fold_tokens: int
    usage: tuple[tuple[int, int], ...]
    size: Size
    open_atom: int | None
    atoms: tuple[Atom, ...]


_KEPT = (
    "seq",
    "head",
    "calls",
    "folds",
    "first_user",
    "last_user",
    "setup_seq",
    "usage",
    "size",
    "raw_tokens",
    "is_reduced",
    "carried",
    "said",
    "owed",
    "recalled",
    "ceilings",
    "overflows",
    "checkpoint",
    "fences",
    "beside",
    "reminded",
    "decided",
    "turns",
    "first",
    "called_ms",
    "fold_calls",
    "fold_tokens",
)


class View(Folding):
    """The atoms of one branch as the next prompt would show them."""

    def __init__(self, lens: Projection) -> None:
        super().__init__(lens)
        self.raw_tokens = 0
        self.stale = False
        self.seq = 0
        self.head: str | None = None
        self.calls = 0
        self.folds = 0
        self.setup: Setup | None = None
        self.setup_seq = 0
        self.usage: tuple[tuple[int, int], ...] = ()
        self.recalled: dict[str, int] = {}
        """How often each reference was fetched since the last fold."""
        self.ceilings: dict[str, int] = {}
        """What providers were found to take, by model, where that is less than they say."""
        self.checkpoint = ""
        """What the agent wrote at its last checkpoint, as it wrote it, until the next fold."""
        self.fences: tuple[Fence, ...] = ()
        """What was put beside the conversation and may still live."""
        self.beside: PromptContext | None = None
        """What the newest prompt held beside the conversation, all blocks of it."""
        self.reminded: dict[str, int] = {}
        """In which call each reminder of a rule was last said and answered."""
        self.called_ms = 0
        """When the provider last answered."""
        self.fold_calls = self.fold_tokens = 0
        """How many calls there had been, and what the view took, after the last fold."""
        self.decided: Fold | None = None
        """The newest fold that was made for the next call, without its items."""
        self.first = ""
        """The id of the branch's first entry."""
        self.turns = 0
        """Words of the user so far."""
        self.overflows = 0
        """How often the provider refused a prompt for its length since its last reply."""

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
            pins=self.lens.pins,
            open_atom=self._open,
            atoms=atoms,
            **{name: getattr(self, name) for name in _KEPT},
        )

    @classmethod
    def thawed(cls, lens: Projection, frozen: "Frozen", atoms: list[Atom], setup: Setup | None) -> "View":
        view = cls(lens)
        for name in _KEPT:
            setattr(view, name, getattr(frozen, name))
        view.atoms, view.setup = atoms, setup
        view._recount()
        view._open = frozen.open_atom
        return view

    def feed(self, seq: int, entry: Entry) -> None:
        """Take the next entry of the branch into account."""
        match entry.body:
            case Message() as message:
                self._message(seq, entry, message)
            case Fold() as fold:
                self.apply(fold.items)
                self.folds += 1
                self.recalled, self.checkpoint = {}, ""
                self.fold_calls, self.fold_tokens = self.calls, self.size.tokens
                self.decided = msgspec.structs.replace(fold, items=())
            case Pin() | Unpin() as mark:
                self.stale |= self.lens.pins.after(mark) != self.lens.pins
            case Rewind():
                self.stale |= entry.parent != self.head
            case Usage() as usage if usage.estimated:
                self.usage = (*self.usage, (usage.estimated, usage.input_tokens))[-_USAGE_KEPT:]
            case Fence() as fence:
                self.fences = (*(old for old in self.fences if old.identity != fence.identity), fence)
            case PromptContext() as mark:
                self.beside = standing(self.beside, mark, entry.id)
            case Overflow(model, limit):
                self.ceilings = {**self.ceilings, model: min(limit, self.ceilings.get(model, limit))}
                self.overflows += 1
            case Setup() as setup:
                self.setup, self.setup_seq = setup, seq
            case _:
                pass
        self.first = self.first or entry.id
        self.seq, self.head = seq, entry.id

    @property
    def growth(self) -> float:
        """Tokens that a call adds, since the last fold."""
        return (self.size.tokens - self.fold_tokens) / max(1, self.calls - self.fold_calls)

    def measure(self, message: Message) -> int:
        """How many tokens a message takes in full."""
        return MESSAGE_TOKENS * (message.role != "tool") + sum(self.lens.measure.part(p).tokens for p in message.parts)

    def _message(self, seq: int, entry: Entry, message: Message) -> None:
        entry_id = entry.id
        if message.role == "assistant":
            self.calls += 1
            self.overflows, self.called_ms = 0, entry.time_ms
            self.decided = None
            self._note_reminded()
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
                # Who says nothing asks for nothing; a file that is attached and what a harness puts in are no requests.
                if entry.author != ATTACHED and any(map(_asks, item.shown, message.parts)):
                    self.turns += 1
                    self.first_user = self.first_user or entry_id
                    self.last_user = entry_id
                self._push(Atom("user", (item,), item.size))
        return None

    def _item(self, seq: int, entry_id: str, message: Message) -> Item:
        shown = tuple(self._show(part, message, short_ref(entry_id, i)) for i, part in enumerate(message.parts))
        if message.role == "tool":
            is_pinned = entry_id in self.lens.pins.entries
            shown = tuple(
                one if is_pinned else self._retained(one, short_ref(entry_id, i)) for i, one in enumerate(shown)
            )
        self.raw_tokens += sum(s.raw_tokens for s in shown) + MESSAGE_TOKENS * (message.role != "tool")
        repair = "" if shown else "the message is empty"
        return Item(seq, entry_id, message.role, shown, message.model, entry_id in self.lens.pins.entries, repair)

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
        safe, wrong, policy = self.lens.normal(part, message.role)
        if holds_artifact(safe):
            self.is_reduced = True
            small = stored_preview(safe, ref)
            has_line = isinstance(safe, Stored) and bool(safe.shown)
            because = "a line of its own" if has_line else "too large for the log; head and tail of the artifact"
            return Shown(small, measure.part(small), raw.tokens, "trimmed", "arrival", because)
        if wrong:
            return Shown(safe, measure.part(safe), raw.tokens, "full", policy, wrong)
        return Shown(safe, raw, raw.tokens)

    def _retained(self, shown: Shown, ref: str) -> Shown:
        """A result as its retention has it start."""
        if not isinstance(result := shown.part, ToolResult):
            return shown
        calls = calls_of(self.atoms[self._open]) if self._open is not None else ()
        call = next((call for call in calls if call.id == result.call), None)
        if call and call.name in (RECALL_TOOL, SEARCH_TOOL):
            return shown  # what was fetched is not taken away again on arrival
        arrived = self.lens.arrive(result, call, ref)
        if call and call.name in self.lens.pins.tools:
            return msgspec.structs.replace(shown, floor="full")
        kept = msgspec.structs.replace(shown, floor=arrived.floor, ttl_turns=arrived.ttl_turns, hint=arrived.hint)
        if arrived.text is None:
            return msgspec.structs.replace(kept, because=arrived.because or kept.because)
        self.is_reduced = True
        part = replace_part(result, arrived.text)
        size = self.lens.measure.part(part) if part else NOTHING
        return msgspec.structs.replace(
            kept, part=part, size=size, level=arrived.level, policy="retention", because=arrived.because
        )

    def _assistant(self, item: Item, message: Message) -> None:
        calls = [(i, part) for i, part in enumerate(message.parts) if isinstance(part, ToolCall)]
        if message.stop != "done":
            self._opaque -= {s.part.json for s in item.shown if isinstance(s.part, Opaque)}
            hidden = _hide(item, f"the reply ended with {message.stop}")
            self._push(Atom("hidden", (hidden,), NOTHING, tuple(c.id for _, c in calls), (None,) * len(calls)))
            self._open = len(self.atoms) - 1 if calls else None
            return
        self._note_recalls(call for _, call in calls)
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

    def _note_reminded(self) -> None:
        """What stood beside the prompt that was answered just now was said in that call."""
        blocks = self.beside.blocks if self.beside else ()
        said = {one.name: self.calls for block in blocks for one in block.said if not one.name.startswith(ONCE)}
        if said:
            self.reminded = {**self.reminded, **said}

    def _note_recalls(self, calls: Iterable[ToolCall]) -> None:
        for call in calls:
            if call.name == RECALL_TOOL and (asked := json_object(call.arguments)):
                ref = str(asked.get("ref", ""))
                self.recalled = {**self.recalled, ref: self.recalled.get(ref, 0) + 1}

    def _note_checkpoint(self, atom: Atom, index: int, part: Part) -> None:
        """A checkpoint counts when it was answered: before that the host may still refuse it."""
        calls = list(calls_of(atom))
        if index < len(calls) and calls[index].name == CHECKPOINT_TOOL:
            self.checkpoint = calls[index].arguments if isinstance(part, ToolResult) and part.status == "ok" else ""

    def _missing(self, wire_id: str) -> Size:
        """What the result takes that has to be made up for a call."""
        return self.lens.measure.part(ToolResult(wire_id, (Text(SYNTHETIC_RESULT),)))

    def _seam(self) -> Size:
        """Some providers want a word of the user between two replies, and before the first."""
        for atom in reversed(self.atoms):
            if atom.kind == "system":
                break
            if atom.gap or any(not item.is_silent for item in atom.items):
                return SEAM if atom.kind == "assistant" else NOTHING
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
        sent = sent_as(shown.part, wire_id)
        if sent is None or sent is shown.part:
            return shown
        return msgspec.structs.replace(shown, size=self.lens.measure.part(sent))

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
            answers[free] = ResultPlace(len(atom.items), i)
            self._note_checkpoint(atom, free, part)
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


def _asks(shown: Shown, part: Part) -> bool:
    """Whether a part of the user's may be what is asked for."""
    return shown.part is not None and not (isinstance(part, Text) and not user_words(part.text))


def _hide(item: Item, because: str) -> Item:
    shown = tuple(Shown(None, NOTHING, s.raw_tokens, "hidden", "repair", because) for s in item.shown)
    return msgspec.structs.replace(item, shown=shown)
