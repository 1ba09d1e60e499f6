"""The oldest atoms are covered by one line that says how many there were."""

from collections.abc import Iterator

import msgspec

from foveal.core.entry import RangeFold
from foveal.core.fit import Scene
from foveal.core.view import Atom
from foveal.levels.reference import gap_line

_LINE_TOKENS = 40
"""More than `gap_line` ever takes."""


class Oldest(msgspec.Struct, frozen=True, tag="oldest", tag_field="fold", forbid_unknown_fields=True):
    """As many of the oldest atoms as needed are covered, except in the newest `keep` of the limit."""

    keep: float = 0.25
    last_resort: bool = False

    def __call__(self, scene: Scene) -> Iterator[RangeFold]:
        for run in _runs(scene, _enough(scene, list(scene.coverable(self.keep)))):
            if any(atom.gap is None for atom in run):
                yield _cover(scene, run)


def _enough(scene: Scene, atoms: list[Atom]) -> list[Atom]:
    """The shortest prefix whose going brings the view to the goal."""
    left, taken = scene.view.size, list[Atom]()
    for atom in atoms:
        if left.tokens + _LINE_TOKENS <= scene.goal.tokens and left.within(scene.goal):
            break
        left -= atom.size
        taken.append(atom)
    return taken


def _runs(scene: Scene, atoms: list[Atom]) -> Iterator[list[Atom]]:
    """The atoms in runs without a hole: what is never folded stays where it is."""
    run: list[Atom] = []
    at = -1
    for atom in atoms:
        place = scene.view.place(atom.first)
        if run and place != at + 1:
            yield run
            run = []
        run.append(atom)
        at = place if place is not None else at
    if run:
        yield run


def _cover(scene: Scene, run: list[Atom]) -> RangeFold:
    entries = sum(atom.gap.entries if atom.gap else len(atom.items) for atom in run)
    raw = sum(atom.raw_tokens for atom in run)
    first, last = run[0].first, run[-1].last
    _, newest = max(atom.newest for atom in run)
    text = gap_line(entries, raw, scene.range_ref(first, newest))
    because = "the oldest that may go, to reach the target"
    return RangeFold(first, last, "covered", text, scene.count(text), "oldest", because)
