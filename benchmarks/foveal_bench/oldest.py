"""The stage `Oldest`: covers the oldest atoms by one line that says how many there were.

No policy names it: `Summarise` covers the same atoms and keeps their state. Benchmarks compare the two.
"""

from collections.abc import Iterator

import msgspec

from foveal.fit.scene import Scene
from foveal.fit.stages.call_pairs import cover, neighbours
from foveal.fit.stages.checks import check_shares
from foveal.values.entry import RangeFold
from foveal.values.shown import Atom

_LINE_TOKENS = 40
"""An upper bound for the line that covers them."""


class Oldest(msgspec.Struct, frozen=True, tag="oldest", tag_field="fold", forbid_unknown_fields=True):
    """Covers as many of the oldest atoms as needed, except in the newest `keep` of the limit."""

    keep: float = 0.25
    last_resort: bool = False

    def __post_init__(self) -> None:
        check_shares(self, "keep")

    def __call__(self, scene: Scene) -> Iterator[RangeFold]:
        for run in neighbours(scene, _enough(scene, list(scene.coverable(self.keep)))):
            if any(atom.gap is None for atom in run):
                yield cover(scene, run, "oldest", "the oldest that may go, to reach the target")


def _enough(scene: Scene, atoms: list[Atom]) -> list[Atom]:
    """Return the shortest prefix that brings the view to the goal when it is covered."""
    left, taken = scene.view.size, list[Atom]()
    for atom in atoms:
        if left.tokens + _LINE_TOKENS <= scene.goal.tokens and left.within(scene.goal):
            break
        left -= atom.size
        taken.append(atom)
    return taken
