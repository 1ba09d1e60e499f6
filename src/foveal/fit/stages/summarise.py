"""The stage `Summarise`: covers the oldest atoms by a summary that code writes: state, the user's words, needed lines.

There is one summary of a session. Its state travels in the fold that shows it, so that the next one is made from that state and
the originals that are newly covered, never from a summary's text. Where pins or requests split the covered range, the
summary is shown in its largest run, and one line in each other.
"""

from collections.abc import Iterator

import msgspec

from foveal.fit import stages
from foveal.fit.cuts import legal_cuts
from foveal.fit.scene import OriginalsNeeded, Scene
from foveal.summary import relevance
from foveal.summary.relevance.weights import Scoring, Weights
from foveal.values.entry import RangeFold
from foveal.values.errors import BadPolicy
from foveal.values.shown import Atom


class Summarise(msgspec.Struct, frozen=True, tag="summarise", tag_field="fold", forbid_unknown_fields=True):
    """Covers as many of the oldest atoms as needed by a summary of at most `share` of the limit."""

    share: float = 0.5
    keep: float = 0.1
    """Share of the limit that the newest atoms keep."""
    keep_turns: int = 0
    keep_messages: int = 0
    score: Scoring = "learned"
    """Criterion for lines: how likely they are to be needed, or how long ago they were seen."""
    last_resort: bool = False
    weights: Weights | None = None
    """Weights of the learned score; None means the package's. A policy file names them by a path, a log by their hash."""

    def __post_init__(self) -> None:
        for name in ("share", "keep"):
            if not 0 <= getattr(self, name) < 1:
                raise BadPolicy(f"summarise.{name} is {getattr(self, name)}; it must be at least 0 and below 1")
        for name in ("keep_turns", "keep_messages"):
            if getattr(self, name) < 0:
                raise BadPolicy(f"summarise.{name} is {getattr(self, name)}; it cannot be negative")
        if self.weights is not None and self.score != "learned":
            raise BadPolicy(f"summarise.weights are not looked at with score = {self.score!r}; leave one of them out")

    def __call__(self, scene: Scene) -> Iterator[tuple[RangeFold, ...] | OriginalsNeeded]:
        allowance = int(scene.limit * self.share)
        going = self._going(scene, allowance)
        # A summary alone is written shorter only as a last resort, when no other atom is left to cover.
        has_news = any(atom.gap is None for atom in going) or (self.last_resort and bool(going))
        if not has_news:
            return
        if needed := _unread(scene, going):
            yield OriginalsNeeded(needed)
        selection = relevance.LineSelection(self.score, self.weights, scene.least)
        if folds := stages.fold_into_summary(scene, going, allowance, selection):
            yield folds

    def _going(self, scene: Scene, allowance: int) -> list[Atom]:
        """Return the atoms to cover: up to the first legal cut that brings the view to the goal, or up to the last cut."""
        cuts = legal_cuts(
            scene.view,
            tokens=int(scene.limit * self.keep) if self.keep else None,
            turns=self.keep_turns,
            messages=self.keep_messages,
            least=allowance if self.keep else 0,
        )
        coverable = {id(atom) for atom in scene.coverable(self.keep)}
        left, going, taken = scene.view.size, list[Atom](), 0
        for i, atom in enumerate((*scene.view.atoms, None)):
            if i in cuts:
                taken = len(going)
                if left.tokens + allowance <= scene.goal.tokens and left.within(scene.goal):
                    break
            if atom is not None and id(atom) in coverable:
                going.append(atom)
                left -= atom.size
        return going[:taken]


def _unread(scene: Scene, going: list[Atom]) -> tuple[int, ...]:
    """Return the positions in the log of the originals that the summary is made from and the scene does not hold yet."""
    unread = {seq for seqs, _ in scene.summary.unread for seq in seqs}
    unread.update(item.seq for atom in going for item in atom.items)
    unread.update(item.seq for item in scene.summarised)
    return tuple(sorted(unread.difference(scene.originals)))
