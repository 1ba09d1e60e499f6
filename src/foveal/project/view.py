"""From the log to the view, one entry at a time.

Theory of operation. A view is a pair: the `Transcript` (the messages as the next prompt would show them) and the `Facts`
(everything else that is known of the branch). `View.feed` takes the entries of one branch in order; nobody else changes
either. The effect of an entry depends on nothing but the entries before it and the projection, so that feeding one by one,
feeding all at once and resuming from a snapshot give the same view.

Some entries change how earlier ones are shown: a pin, a rewind. The view does not patch itself for them; `feed` returns that it
is stale, and its caller builds a new one from the log. They are rare, and one way to build is enough.
"""

from collections.abc import Iterable, Sequence
from itertools import takewhile

import msgspec

from foveal.project.facts import NO_EFFECT, Effect, Facts, after, summaries_in
from foveal.project.projection import Projection
from foveal.project.transcript import Transcript
from foveal.values.entry import ATTACHED, Entry, Fence, Fold, Message, Pin, Rewind, Unpin
from foveal.values.shown import Atom, Size

PROJECTION = 7
"""Raised whenever the same log gives another view, or snapshots another encoding: older snapshots are not read."""


class View:
    """One branch as the next prompt would show it. Only `feed`, `drop_fences` and `use_nonce` change it."""

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
                effect = self.transcript.take(seq, entry.id, message, is_file=entry.author == ATTACHED)
            case Fold() as fold:
                effect = self._fold(fold)
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

    def use_nonce(self, nonce: str) -> None:
        """Frame the engine's own words by this nonce, which the next `Setup` records."""
        self.facts = msgspec.structs.replace(self.facts, nonce=nonce)

    def copy(self) -> "View":
        """Return a view that can be folded further without changing this one."""
        return View(self.projection, self.facts, self.transcript.copy())

    def folded(self, fold: Fold) -> "View":
        """Return the view as it will be with this fold."""
        twin = self.copy()
        twin.transcript.apply(fold.items)
        return twin

    def _fold(self, fold: Fold) -> Effect:
        transcript = self.transcript
        covered = {seq for item in summaries_in(fold.items) for seq in transcript.covered_by(item)}
        is_applied = transcript.apply(fold.items)
        return Effect(is_reduced=is_applied, covered=tuple(sorted(covered)), tokens=transcript.size.tokens)
