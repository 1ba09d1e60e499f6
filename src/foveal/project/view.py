"""From the log to the view, one entry at a time.

Theory of operation. A view is a pair: the `Transcript` (the messages as the next prompt would show them) and the `Facts`
(everything else that is known of the branch). `View.feed` takes the entries of one branch in order; nobody else changes
either. The effect of an entry depends on nothing but the entries before it and the projection, so that feeding one by one,
feeding all at once and resuming from a snapshot give the same view.

Some entries change how earlier ones are shown: a pin, a rewind. The view cannot follow them by itself, because it has no
originals; `feed` returns that it is stale, and its caller builds the next one. A pin holds from its place in the log on: a
message that a fold covers already is shown again behind the gap (`with_pins`), and an unpinned one stays until the next fold.
What a fold has covered stays covered, whatever retention, model or dialect comes later. So a view for another projection shows
the same messages (`shown_by`), and none of the covered ones has to be read for it.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile

import msgspec

from foveal.project.atom_maker import is_reduced
from foveal.project.facts import NO_EFFECT, Effect, Facts, after, summaries_in
from foveal.project.projection import Projection
from foveal.project.transcript import Transcript
from foveal.text.guard import session_nonce
from foveal.values.entry import CLIENT, Entry, Fence, Fold, FoldItem, Message, Pin, Rewind, Unpin
from foveal.values.shown import Atom, Size

PROJECTION = 8
"""Raised whenever the same log gives another view, or snapshots another encoding: older snapshots are not read."""


class View:
    """One branch as the next prompt would show it. Only `feed` and `drop_fences` change it."""

    def __init__(
        self, projection: Projection, facts: Facts | None = None, transcript: Transcript | None = None
    ) -> None:
        self.projection = projection
        self.facts = facts or Facts()
        self.transcript = transcript or Transcript(projection)

    @property
    def atoms(self) -> Sequence[Atom]:
        """The atoms of the transcript."""
        return self.transcript.atoms

    @property
    def size(self) -> Size:
        """The size of the transcript."""
        return self.transcript.size

    @property
    def system_tokens(self) -> int:
        """Tokens of the system prompt."""
        return sum(atom.size.tokens for atom in takewhile(lambda atom: atom.kind == "system", self.atoms))

    @property
    def growth(self) -> float:
        """Tokens that a call has added since the last fold, on average."""
        facts = self.facts
        return (self.size.tokens - facts.fold_tokens) / max(1, facts.calls - facts.fold_calls)

    def place(self, entry_id: str | None) -> int | None:
        """Return the place of the atom that shows this entry; None if no atom does."""
        return None if entry_id is None else self.transcript.place(entry_id)

    def feed(self, seq: int, entry: Entry) -> bool:
        """Take the next entry of the branch into account. Return whether the view is now stale and must be rebuilt."""
        effect, is_stale = NO_EFFECT, False
        match entry.body:
            case Message() as message:
                effect = self.transcript.take(seq, entry, message)
            case Fold() as fold:
                effect = self._fold(seq, fold)
            case Pin() | Unpin() as mark:
                is_stale = self.projection.pins.after(mark) != self.projection.pins
            case Rewind():
                is_stale = entry.parent != self.facts.head
            case _:
                pass
        self.facts = after(self.facts, seq, entry, effect)
        return is_stale

    def drop_fences(self, expired: Iterable[Fence]) -> None:
        """Forget fences whose time has passed and which were reported as such."""
        gone = set(expired)
        if gone:
            left = tuple(fence for fence in self.facts.fences if fence not in gone)
            self.facts = msgspec.structs.replace(self.facts, fences=left)

    @property
    def nonce(self) -> str:
        """The nonce of the engine's own tags. Sessions of earlier versions have none but that of their first entry."""
        return self.projection.nonce or session_nonce(self.facts.first)

    def copy(self) -> "View":
        """Return a view that can be folded further without changing this one."""
        return View(self.projection, self.facts, self.transcript.copy())

    def folded(self, fold: Fold) -> "View":
        """Return the view as it will be with this fold."""
        twin = self.copy()
        twin.transcript.apply(fold.items)
        return twin

    def after_fold(self, seq: int, entry: Entry, fold: Fold) -> tuple["View", Fold]:
        """Return the view after a fold that is about to be recorded, and the fold with the decisions it takes on this view."""
        view, items, covered = self.copy(), list[FoldItem](), set[int]()
        for number, item in enumerate(fold.items):
            settled = view.transcript.settled_fold(item)
            covered.update(place for one in summaries_in((settled,)) for place in view.transcript.covered_by(one))
            view.transcript.apply((settled,), seq, number)
            items.append(settled)
        fold = msgspec.structs.replace(fold, items=tuple(items))
        effect = Effect(is_reduced=any(map(_reduces, items)), covered=tuple(sorted(covered)))
        view.facts = after(self.facts, seq, msgspec.structs.replace(entry, body=fold), effect)
        return view, fold

    def shown_by(
        self, projection: Projection, found: Mapping[int, Entry], places: Iterable[int] | None = None
    ) -> "View":
        """Return the view by another projection: all of it, or only the atoms at these places, where the rest is the same.

        `found` has the entries that `Transcript.needed` names.
        """
        transcript = self.transcript.shown_by(projection, found, None if places is None else tuple(places))
        is_below_full = any(is_reduced(item) for atom in transcript.atoms for item in atom.items)
        facts = msgspec.structs.replace(self.facts, is_reduced=self.facts.is_folded or is_below_full)
        return View(projection, facts, transcript)

    def _fold(self, seq: int, fold: Fold) -> Effect:
        transcript = self.transcript
        covered = {place for item in summaries_in(fold.items) for place in transcript.covered_by(item)}
        is_applied = transcript.apply(fold.items, seq)
        return Effect(is_reduced=is_applied and any(map(_reduces, fold.items)), covered=tuple(sorted(covered)))


def _reduces(item: FoldItem) -> bool:
    """Return whether a fold leaves something to recall: what a client shortened itself has no reference."""
    return item.policy != CLIENT
