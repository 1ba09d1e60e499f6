"""From a view that is too large to a fold that makes it fit: its stand-ins, its reason, and its price.

The stages of a policy propose folds one by one, each seeing the view with the folds so far; `fit` applies them to a copy
until the target is reached. The result is data: nothing changes until the fold is recorded in the log. `fit` reads nothing:
when a stage needs originals, `fit` yields the question and is sent the entries (`run_fit` does that with a reader).

Stages run in order. Those marked `last_resort` run only if the ones before them could not get the view below the middle
between target and limit: a view that is just under its limit would be folded again at the next call, and each fold moves
the prefix.
"""

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TypeAlias

from msgspec.structs import astuple

from foveal.fit.newest import least_size, shorten_newest
from foveal.fit.scene import KeepsThinking, OriginalsNeeded, Remembered, Scene, Stage
from foveal.project.atoms import loop_start, open_calls, thinking_in
from foveal.project.view import View
from foveal.values.entry import Entry, Fold, FoldItem, PartFold
from foveal.values.errors import OverBudget
from foveal.values.fold_cost import Prices, calls_within, carry_threshold
from foveal.values.shown import Atom, Size, total

WantedParts: TypeAlias = Mapping[tuple[str, int], str]
"""Originals, by entry and part, that are worth showing again."""

NOTHING_WANTED: WantedParts = MappingProxyType({})

Originals: TypeAlias = Callable[[Sequence[int]], Mapping[int, Entry]]
"""Reads entries by their positions in the log."""

FitSteps: TypeAlias = Generator[OriginalsNeeded, Mapping[int, Entry], Fold | None]
"""A fit under way: yields questions, is sent their answers, returns the fold."""


def run_fit(steps: FitSteps, originals: Originals) -> Fold | None:
    """Run a fit to its end, reading the originals that it asks for, and return its fold."""
    try:
        needed = next(steps)
        while True:
            needed = steps.send(originals(needed.seqs))
    except StopIteration as end:
        return end.value


def fit(
    view: View,
    limit: Size,
    target: Size,
    stages: Sequence[Stage],
    *,
    tools_tokens: int = 0,
    wanted: WantedParts = NOTHING_WANTED,
    fetched: Mapping[str, str] = MappingProxyType({}),
    trigger: Size | None = None,
    prices: Prices | None = None,
    remembered: Remembered | None = None,
) -> FitSteps:
    """Find the folds that bring the view from above `trigger` (by default the limit) to `target`. `OverBudget` if nothing can.

    Returns None if the view is small enough already, or cannot be made smaller and still fits. `tools_tokens` are already
    subtracted from the sizes; the error names them. `wanted` is shown again where the folds leave room, `fetched` (originals
    of covered entries) in the summary. The `prices` decide how much a summary is worth carrying. `remembered` is what stages
    found out before, of values that may still be there.
    """
    trigger = trigger or limit
    if view.size.within(trigger):
        return None
    work = view.copy()
    held = frozenset(entry for entry, _ in wanted)
    # Shares are of the size that the view is kept under, without the system prompt, which no fold makes smaller.
    tokens = min(limit.tokens, trigger.tokens) if trigger.tokens > target.tokens else limit.tokens
    least = _least(view, prices, tokens, target.tokens) if prices else 0.0
    known = {} if remembered is None else remembered
    room = max(1, tokens - view.system_tokens)
    scene = Scene(work, room, target, wanted=held, fetched=fetched, least=least, remembered=known)
    # Raised at once where no fold can help: a session that is refused is asked again and again.
    mandatory = [atom for atom in work.atoms if scene.is_mandatory(atom)]
    if not least_size(scene, mandatory).within(limit):
        raise _over_budget(scene, mandatory, limit, tools_tokens)
    middle = Size(*((t + m) // 2 for t, m in zip(astuple(target), astuple(limit), strict=True)))
    folds: list[FoldItem] = []
    for stage in stages:
        scene.goal = middle if stage.last_resort else target
        if not work.size.within(scene.goal):
            folds.extend((yield from _until(scene, stage)))
    if not work.size.within(limit):
        folds.extend(shorten_newest(scene, view, limit))
    if not work.size.within(limit):
        raise _over_budget(scene, work.atoms, limit, tools_tokens)
    if not folds or _is_idle(view, work, limit, target, trigger):
        return None  # to try again at every call would change nothing
    kept_from = min((s.thinking_from(scene) for s in stages if isinstance(s, KeepsThinking)), default=len(work.atoms))
    thinking = list(_old_thinking(work, min(kept_from, loop_start(work.atoms))))
    work.transcript.apply(thinking)
    raised = list(_raised(scene, wanted, middle))
    first = min(work.transcript.changed_since(view.transcript.version), len(view.atoms))
    rebilled = sum(atom.size.tokens for atom in work.atoms[first:])
    unit = _unit(view.size, trigger)
    reason = f"{getattr(view.size, unit):,} {unit} of messages, {getattr(trigger, unit):,} allowed"
    items = (*_needed(folds, view, work), *thinking, *raised)
    return Fold(items, reason, view.size.tokens, work.size.tokens, rebilled)


def _needed(folds: list[FoldItem], view: View, work: View) -> list[FoldItem]:
    """Return the folds that lead from `view` to `work`, without stand-ins that a later one of them covers.

    A fold inside a running loop moves its gap before the loop, into the reach of later ones: without it they would cover less.
    """
    kept = [item for item in folds if not _is_covered(work, item)]
    if len(kept) == len(folds) or all(isinstance(item, PartFold) for item in folds if item not in kept):
        return kept
    twin = view.copy()
    twin.transcript.apply(kept)
    is_same = [atom.first for atom in twin.atoms] == [atom.first for atom in work.atoms]
    return kept if is_same else folds


def _least(view: View, prices: Prices, limit: int, target: int) -> float:
    """Return the least probability for a summary's token. A session that grows slowly carries it longer, so it keeps less."""
    calls = calls_within(limit - target, view.growth)
    return carry_threshold(prices, calls=calls, prompt=(limit + target) // 2)


def _is_idle(view: View, work: View, limit: Size, target: Size, trigger: Size) -> bool:
    """Return whether the folds leave the view above the trigger, for less than half of the room that a fold is to make.

    The mandatory content can be larger than the trigger. Then a fold waits until it is worth moving the prefix.
    """
    saved = view.size.tokens - work.size.tokens
    return view.size.within(limit) and not work.size.within(trigger) and 2 * saved < trigger.tokens - target.tokens


def _until(scene: Scene, stage: Stage) -> Generator[OriginalsNeeded, Mapping[int, Entry], list[FoldItem]]:
    """Apply the stage's folds that make the view smaller, until the goal is reached. Folds of one entry stay together."""
    folds: list[FoldItem] = []
    entry: str | None = None
    for proposed in stage(scene):
        if isinstance(proposed, OriginalsNeeded):
            scene.originals.update((yield proposed))
            continue
        batch = proposed if isinstance(proposed, tuple) else (proposed,)
        of = batch[0].entry if isinstance(batch[0], PartFold) else None
        if scene.view.size.within(scene.goal) and (of is None or of != entry):
            break
        for item in batch:
            if scene.view.transcript.shrinks(item):
                scene.view.transcript.apply((item,))
                entry = of
                folds.append(item)
    return folds


def _raised(scene: Scene, wanted: WantedParts, most: Size) -> Iterator[PartFold]:
    """Yield folds that show results again which the model fetched again and again, as far as there is room."""
    for at, text in wanted.items():
        fold = scene.fold(at, text, level="recalled", policy="recall", because="the model fetched it again and again")
        if scene.view.place(at[0]) is not None and scene.view.size.tokens + fold.tokens <= most.tokens:
            scene.view.transcript.apply((fold,))
            yield fold


def _is_covered(view: View, item: FoldItem) -> bool:
    """Return whether a later fold of the same batch covers the stand-in of this one."""
    place = view.place(item.entry if isinstance(item, PartFold) else item.first)
    return place is None or (isinstance(item, PartFold) and view.atoms[place].gap is not None)


def _old_thinking(work: View, end: int) -> Iterator[PartFold]:
    """Yield folds of the thinking of finished loops: its signatures may be bound to the prefix that is about to move."""
    because = "thinking of a finished loop goes when the prefix moves"
    for atom in work.atoms[:end]:
        for item, i in thinking_in(atom):
            yield PartFold(item.id, i, "cleared", "", 0, "thinking", because)


def _over_budget(scene: Scene, atoms: Sequence[Atom], limit: Size, tools_tokens: int) -> OverBudget:
    """Return the error that names the sizes of these atoms by kind, in the unit that does not fit."""
    unit = _unit(total(atom.size for atom in atoms), limit)
    parts = {"tools": tools_tokens} if unit == "tokens" else {}
    for atom in atoms:
        name = _part_name(scene, atom)
        parts[name] = parts.get(name, 0) + getattr(atom.size, unit)
    return OverBudget(getattr(limit, unit) + parts.get("tools", 0), parts, unit)


def _part_name(scene: Scene, atom: Atom) -> str:
    if atom.kind == "system":
        return "system prompt"
    if atom.pinned:
        return "pinned entries"
    if atom.is_held:
        return "results that retention keeps"
    if atom is open_calls(scene.view.atoms):
        return "newest calls and results"
    ids = {item.id for item in atom.items}
    if scene.view.facts.last_user in ids:
        return "latest request"
    return "first request" if scene.view.facts.first_user in ids else "stand-ins"


def _unit(size: Size, limit: Size) -> str:
    """Return the unit in which the size is above the limit."""
    return "tokens" if size.tokens > limit.tokens else "bytes" if size.bytes > limit.bytes else "images"
