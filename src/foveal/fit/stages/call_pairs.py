"""Tool calls with their results: finding the pairs, and folds that several stages make of them."""

from collections.abc import Iterable, Iterator

import msgspec

from foveal.fit.scene import Scene
from foveal.fit.stages.clear import LEAST_TOKENS
from foveal.project.atoms import shown_parts
from foveal.text.shorten.arguments import shorten_arguments
from foveal.text.shorten.reference import gap_line, result_reference
from foveal.values.entry import PartFold, RangeFold, ToolCall, ToolResult
from foveal.values.shown import Atom, Shown, range_ref, short_ref


class CallPair(msgspec.Struct, frozen=True):
    """A call with its result, and the places of both."""

    atom: Atom
    call: ToolCall
    call_at: tuple[str, int]
    call_shown: Shown
    shown: Shown
    at: tuple[str, int]
    result: ToolResult


def call_pairs(scene: Scene) -> Iterator[CallPair]:
    """Yield the calls that have a result, in order. Those of an atom that has not changed are remembered."""
    known = scene.remembered
    for atom in scene.view.atoms:
        if atom.kind == "tools":
            key = "pairs", atom.first
            found = known.get(key)
            if found is None or found[0] is not atom:
                known[key] = found = atom, tuple(_pairs_of(atom))
            yield from found[1]


def _pairs_of(atom: Atom) -> Iterator[CallPair]:
    calls = [(item, i, s, s.part) for item, i, s, _ in shown_parts(atom) if isinstance(s.part, ToolCall)]
    for (item, i, asked, call), answer in zip(calls, atom.answers, strict=False):
        if answer is not None:
            at = atom.items[answer.item]
            shown = at.shown[answer.part]
            if isinstance(shown.part, ToolResult):
                yield CallPair(atom, call, (item.id, i), asked, shown, (at.id, answer.part), shown.part)


def compress(scene: Scene, atom: Atom, policy: str, because: str) -> Iterator[PartFold]:
    """Yield the folds of a pair: results become references, long arguments short ones."""
    for item, i, shown, call in shown_parts(atom):
        if shown.level == "reference" or (shown.size.tokens <= LEAST_TOKENS and not shown.size.images):
            continue
        ref, text = short_ref(item.id, i), None
        if isinstance(shown.part, ToolCall):
            text = shorten_arguments(shown.part.arguments, LEAST_TOKENS, scene.count, ref)
        elif isinstance(shown.part, ToolResult):
            text = result_reference(shown.part, call.name if call else "tool", shown.raw_tokens, ref)
        if text is not None:
            yield scene.fold((item.id, i), text, level="reference", policy=policy, because=because)


def neighbours(scene: Scene, atoms: Iterable[Atom]) -> Iterator[list[Atom]]:
    """Yield the atoms as runs of neighbours."""
    # All places first: the caller may fold a run before it asks for the next one, and later atoms move up.
    places = [(atom, scene.view.place(atom.first)) for atom in atoms]
    run: list[Atom] = []
    at: int | None = None
    for atom, place in places:
        if run and (place is None or at is None or place != at + 1):
            yield run
            run = []
        run.append(atom)
        at = place
    if run:
        yield run


def cover(scene: Scene, run: list[Atom], policy: str, because: str) -> RangeFold:
    """Return the fold of neighbouring atoms into one line."""
    entries = sum(atom.gap.entries if atom.gap else len(atom.items) for atom in run)
    _, newest = max(atom.newest for atom in run)
    text = gap_line(entries, sum(atom.raw_tokens for atom in run), range_ref(run[0].first, newest))
    return RangeFold(run[0].first, run[-1].last, "covered", text, scene.count(text), policy, because)
