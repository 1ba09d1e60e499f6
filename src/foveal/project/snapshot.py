"""A view as bytes, so that opening a session costs as much as its prompt holds and not as much as its history holds.

A snapshot keeps decisions (levels, stand-ins, sizes, ids) and leaves out text that can be read from the log: parts that are
shown in full, the text of gaps and the newest `Setup` are fetched again by their position. It is a cache: a snapshot that does
not decode is ignored, and the log is read instead.

The layout of a fold is a snapshot without any texts and sizes. It is recorded with the fold, so that the view at any place of the
log is built from the fold before it and the entries since. Both serve every projection: a view for another model, or with other
pins, shows the same messages, measured and shortened anew.
"""

import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping

import msgspec

from foveal.project.atom_maker import AtomMaker
from foveal.project.facts import Facts, trail_after
from foveal.project.projection import Projection
from foveal.project.transcript import Transcript
from foveal.project.view import PROJECTION, View
from foveal.values.entry import ATTACHED, Entry, Fold, Message, Part, Setup
from foveal.values.pins import Pins
from foveal.values.shown import NOTHING, Atom, Item, Shown

Fetch = Callable[[Iterable[int]], Mapping[int, Entry]]
"""Reads the entries at these positions of the log."""

STATE_EVERY = 16
"""Folds between two layouts that keep the state of the summary. The state is several times as large as all that a fold
records; reading the messages of so many folds again takes as long as a few folds."""

_FASTEST = 1
"""Level of compression: higher ones take several times as long for a tenth less."""


class ViewSnapshot(msgspec.Struct, frozen=True, omit_defaults=True):
    """A view as one frozen value."""

    version: int
    key: str
    """The key of its projection; empty for a layout, which was made for none."""
    pins: Pins
    facts: Facts
    atoms: tuple[Atom, ...]
    open_reply: int | None = None
    opaque: tuple[tuple[str, int, str], ...] = ()

    @staticmethod
    def of(view: View, *, with_state: bool = True) -> "ViewSnapshot":
        """Return the snapshot of a view. Without its state, the summary is made from the newest state in the log."""
        return _snapshot(view, view.projection.key, _emptied, with_state=with_state)

    @staticmethod
    def decode(payload: bytes) -> "ViewSnapshot | None":
        """Return the snapshot that these bytes hold; None if they hold none, or one of another version."""
        try:
            found = _decoder.decode(zlib.decompress(payload))
        except (msgspec.DecodeError, zlib.error):
            return None
        return found if found.version == PROJECTION else None

    def encode(self) -> bytes | None:
        """Return the snapshot as bytes; None for the rare one whose stand-ins hold text that is not valid UTF-8."""
        try:
            return zlib.compress(msgspec.msgpack.encode(self), _FASTEST)
        except UnicodeEncodeError:
            return None

    def restore(self, projection: Projection, fetch: Fetch) -> View | None:
        """Return the view as this projection shows it, with the pins of the snapshot; None if the log lacks entries of it."""
        projection = msgspec.structs.replace(projection, pins=self.pins)
        shown = Transcript(projection, self.atoms, self.open_reply, self.opaque)
        is_same = self.key == projection.key
        seqs = {*self._left_out()} if is_same else shown.needed(self.atoms)
        setup_seq = self.facts.setup_seq
        found = fetch([*seqs, setup_seq] if setup_seq else seqs)
        if any(seq not in found for seq in seqs):
            return None
        setup = found[setup_seq].body if setup_seq in found else None
        facts = msgspec.structs.replace(self.facts, setup=setup if isinstance(setup, Setup) else None)
        if not self.key:
            facts = msgspec.structs.replace(facts, trail=trail_after(facts, facts.seq))
        maker = AtomMaker(projection)
        if not is_same:
            return View(projection, facts, shown).shown_by(projection, found)
        atoms = (
            maker.gap_again(atom, atom.gap, found)
            if atom.gap
            else msgspec.structs.replace(atom, items=tuple(_filled(item, found, projection) for item in atom.items))
            for atom in self.atoms
        )
        return View(projection, facts, Transcript(projection, atoms, self.open_reply, self.opaque))

    def places(self) -> set[int]:
        """Return the positions of the entries that are needed to show the view again in the same way."""
        facts = self.facts
        base = facts.summary.base if not facts.summary.state else 0
        return {*self._left_out(), *(seq for seq in (facts.setup_seq, base) if seq)}

    def _left_out(self) -> Iterator[int]:
        """Yield the positions in the log of the texts that the snapshot of a view leaves out."""
        for atom in self.atoms:
            if atom.gap:
                yield atom.gap.fold[0]
            yield from (item.seq for item in atom.items if any(map(_is_missing, item.shown)))


_decoder = msgspec.msgpack.Decoder(ViewSnapshot)


def record_fold(view: View, seq: int, entry: Entry, fold: Fold) -> tuple[View, Fold]:
    """Return the view after a fold that is about to be recorded at this position, and the fold as it is recorded."""
    has_state = any(getattr(item, "state", "") for item in fold.items)
    keeps_state = has_state and len(view.facts.summary.since) + 1 >= STATE_EVERY
    fold = msgspec.structs.replace(fold, keeps_state=keeps_state, layout=b"")
    folded, settled = view.after_fold(seq, entry, fold)
    layout = _snapshot(folded, "", _bare, with_state=keeps_state).encode()
    if layout is None:
        return view.after_fold(seq, entry, msgspec.structs.replace(fold, keeps_state=False))
    folded.facts = msgspec.structs.replace(folded.facts, trail=trail_after(folded.facts, seq))
    return folded, msgspec.structs.replace(settled, layout=layout)


def layout_of(entry: Entry) -> ViewSnapshot | None:
    """Return the layout of a fold; None if it has none of this version. Its trail is that before the fold."""
    return ViewSnapshot.decode(entry.body.layout) if isinstance(entry.body, Fold) and entry.body.layout else None


class _ShownItem(msgspec.Struct, frozen=True):
    id: str


class _ShownAtom(msgspec.Struct, frozen=True):
    items: tuple[_ShownItem, ...] = ()


class _Milestones(msgspec.Struct, frozen=True):
    calls: int = 0
    trail: tuple[tuple[int, int], ...] = ()


class LayoutGlance(msgspec.Struct, frozen=True):
    """The part of a layout by which places of a branch are found: a twentieth of the time that the whole takes."""

    version: int
    facts: _Milestones
    atoms: tuple[_ShownAtom, ...] = ()

    @property
    def shown(self) -> frozenset[str]:
        """The entries that the view after the fold shows."""
        return frozenset(item.id for atom in self.atoms for item in atom.items)


class _HasLayout(msgspec.Struct, frozen=True):
    layout: bytes = b""


_glances = msgspec.msgpack.Decoder(LayoutGlance)
_layouts = msgspec.json.Decoder(_HasLayout)


def glance_at(payload: bytes) -> LayoutGlance | None:
    """Return a glance at the layout of a fold that was encoded as these bytes; None if it has none of this version."""
    try:
        packed = _layouts.decode(memoryview(payload)[1:]).layout
        found = _glances.decode(zlib.decompress(packed)) if packed else None
    except (msgspec.DecodeError, zlib.error):
        return None
    return found if found and found.version == PROJECTION else None


def _snapshot(view: View, key: str, less: Callable[[Item], Item], *, with_state: bool) -> ViewSnapshot:
    atoms = tuple(
        msgspec.structs.replace(
            atom, items=tuple(map(less, atom.items)), gap=atom.gap and msgspec.structs.replace(atom.gap, text="")
        )
        for atom in view.atoms
    )
    if not key:
        atoms = tuple(msgspec.structs.replace(atom, size=NOTHING, seam=NOTHING) for atom in atoms)
    facts = msgspec.structs.replace(view.facts, setup=None)
    if not with_state:
        facts = msgspec.structs.replace(facts, summary=facts.summary.packed)
    transcript = view.transcript
    return ViewSnapshot(PROJECTION, key, view.projection.pins, facts, atoms, transcript.open_reply, transcript.opaque)


def _is_missing(shown: Shown) -> bool:
    return shown.level == "full" and shown.part is None


def _emptied(item: Item) -> Item:
    shown = tuple(msgspec.structs.replace(s, part=None) if s.level == "full" else s for s in item.shown)
    return msgspec.structs.replace(item, shown=shown)


def _bare(item: Item) -> Item:
    """Return the item without all that a projection decides: the reasons of repairs stay."""
    shown = (Shown(None, NOTHING, 0, because=s.because if s.policy == "repair" else "") for s in item.shown)
    return msgspec.structs.replace(item, shown=tuple(shown))


def _filled(item: Item, rows: Mapping[int, Entry], projection: Projection) -> Item:
    if not any(map(_is_missing, item.shown)):
        return item
    entry = rows[item.seq]
    parts: tuple[Part, ...] = entry.body.parts if isinstance(entry.body, Message) else ()
    prepared = projection.prepared(parts, item.role, is_file=entry.author == ATTACHED)
    shown = tuple(
        msgspec.structs.replace(s, part=prepared[i][0]) if _is_missing(s) else s for i, s in enumerate(item.shown)
    )
    return msgspec.structs.replace(item, shown=shown)
