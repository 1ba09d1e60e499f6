"""The folds of a summary. Apart from the stage, because it imports all of `summary`, which not every session needs."""

from collections.abc import Iterable, Iterator

import msgspec

from foveal.fit.scene import Scene
from foveal.fit.stages.call_pairs import cover, neighbours
from foveal.project.facts import SUMMARISED
from foveal.project.view import View
from foveal.summary import relevance
from foveal.summary.compose import compose
from foveal.summary.state import Summary, SummaryCoverage, decode_summary, encode_summary, extend, steps_at
from foveal.text.stand_in import part_text
from foveal.values.entry import Fold, RangeFold
from foveal.values.shown import Atom, range_ref

BECAUSE = "the oldest that may go, to reach the target; the summary holds their state"

_SEAM_TOKENS = 16
"""Tokens of a gap beyond its text, rounded up: a fold must make the view smaller."""


def fold_into_summary(
    scene: Scene, going: list[Atom], allowance: int, selection: relevance.LineSelection
) -> tuple[RangeFold, ...]:
    """Return the folds that cover these atoms: the summary for their largest run, one line for each other."""
    runs = list(neighbours(scene, going))
    largest = max(runs, key=_tokens)
    # At most half of the covered tokens, or the size of the summary before: one that saves nothing moves the prefix for nothing.
    most = max(sum(map(_tokens, runs)) // 2, *(_written(atom) for atom in going))
    allowance = min(allowance, most, _tokens(largest) - _SEAM_TOKENS)
    items = [*scene.summarised, *(item for atom in going for item in atom.items)]
    steps = steps_at(sorted(item.seq for item in items), scene.originals)
    room = relevance.room_for(scene.limit)
    summary = extend(_before(scene), steps, _covered(scene, going), room)
    summary = msgspec.structs.replace(summary, nonce=scene.view.nonce)
    gone = {id(atom) for atom in going}
    beside = _texts(atom for atom in scene.view.atoms if id(atom) not in gone)
    text = compose(
        summary, tokens=allowance, count=scene.count, shown=beside, fetched=scene.fetched, selection=selection
    )
    ends = largest[0].first, largest[-1].last
    fold = RangeFold(*ends, "summary", text, scene.count(text), SUMMARISED, BECAUSE, summary.prose, summary.author)
    if not scene.view.transcript.shrinks(fold):
        return ()
    scene.summarised = items
    lines = (cover(scene, run, SUMMARISED, BECAUSE) for run in runs if run is not largest and not _is_one_line(run))
    return *lines, msgspec.structs.replace(fold, state=encode_summary(summary), room=room)


def _tokens(run: list[Atom]) -> int:
    return sum(atom.size.tokens for atom in run)


def _written(atom: Atom) -> int:
    """Return the tokens of the summary that this atom shows; 0 if it shows none."""
    return atom.size.tokens if atom.gap and atom.gap.level == "summary" else 0


def _is_one_line(run: list[Atom]) -> bool:
    return len(run) == 1 and run[0].gap is not None and run[0].gap.level != "summary"


def _covered(scene: Scene, going: list[Atom]) -> SummaryCoverage:
    return SummaryCoverage(
        entries=sum(atom.gap.entries if atom.gap else len(atom.items) for atom in going),
        tokens=sum(atom.raw_tokens for atom in going),
        ref=range_ref(going[0].first, max(atom.newest for atom in going)[1]),
    )


def _before(scene: Scene) -> Summary:
    """Return the summary so far. Messages that its state lacks are read again, fold by fold as the first time."""
    summary = decode_summary(scene.summary.state)
    for seqs, room in scene.summary.unread:
        summary = extend(summary, steps_at(seqs, scene.originals), summary.covered, room)
    return msgspec.structs.replace(summary, prose=scene.summary.prose, author=scene.summary.author)


def shown_beside(view: View, fold: Fold) -> Iterator[str]:
    """Yield the texts that the prompt will show beside the summary of this fold, which is not applied yet."""
    return _texts(view.folded(fold).atoms)


def _texts(atoms: Iterable[Atom]) -> Iterator[str]:
    """Yield the texts that the prompt shows in these atoms. A summary beside them need not repeat them."""
    for atom in atoms:
        yield from (part_text(shown.part) for item in atom.items for shown in item.shown)
