"""From a view that is too large to a plan that fits: which folds, why now, and what the move costs.

The stages of a policy propose folds one by one, each seeing the view with the folds so far; `fit` applies them to a copy
until the target is reached. The result is data: nothing changes until the plan is recorded in the log.

Stages run in order. Those marked `last_resort` run only if the ones before them could not get the view below the middle
between target and limit: a view that sits just under its limit would be folded again at the next call, and each fold moves
the prefix.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Protocol, TypeAlias, runtime_checkable

from foveal.fit.cuts import KeptTokens
from foveal.project.view import View
from foveal.values.entry import Entry, Fold, FoldItem, PartFold, RedactedThinking, Thinking
from foveal.values.errors import OverBudget
from foveal.values.fold_cost import Prices, calls_within, worth_carrying
from foveal.values.shown import Atom, Item, Shown, Size, range_ref, short_ref, total

WantedParts: TypeAlias = Mapping[tuple[str, int], str]
"""Originals, by entry and part, that are worth showing again."""

NOTHING_WANTED: WantedParts = MappingProxyType({})

Originals: TypeAlias = Callable[[Sequence[int]], Mapping[int, Entry]]
"""Entries as they were recorded, by their places in the log: a summary is made from these and never from stand-ins."""


def _no_originals(_places: Sequence[int]) -> Mapping[int, Entry]:
    return {}


class Stage(Protocol):
    """One step of a policy: proposes folds, oldest first. The caller stops asking when the goal is reached.

    Folds that only make sense together are proposed as a tuple.
    """

    @property
    def last_resort(self) -> bool: ...

    def __call__(self, scene: "Scene") -> Iterable[FoldItem | tuple[FoldItem, ...]]: ...


@runtime_checkable
class KeepsThinking(Protocol):
    """A stage that wants thinking of finished loops to stay although the prefix moves."""

    def thinking_from(self, scene: "Scene") -> int:
        """The place of the first atom whose thinking stays."""
        ...


class Scene:
    """What a stage sees: the view so far, what may be folded, and how to name and measure a stand-in."""

    def __init__(
        self,
        view: View,
        limit: int,
        goal: Size,
        *,
        wanted: frozenset[str] = frozenset(),
        originals: Originals = _no_originals,
        fetched: Mapping[str, str] = MappingProxyType({}),
        least: float = 0.0,
    ) -> None:
        self.view = view
        self.limit = limit
        self.goal = goal
        self.originals = originals
        self.fetched = fetched
        self.least = least
        """How likely to be needed a token of a summary must be that it is worth its place."""
        self.carried, self.owed, self.said = view.carried, view.owed, view.said
        self.summarised: list[Item] = []
        """What the summary of this batch covers beyond the one before."""
        self._wanted = wanted

    @property
    def count(self) -> Callable[[str], int]:
        return self.view.lens.measure.count

    def is_mandatory(self, atom: Atom) -> bool:
        """The system prompt, the first and the latest request and pins are never folded."""
        held = (self.view.first_user, self.view.last_user)
        return atom.kind == "system" or atom.pinned or any(item.id in held for item in atom.items)

    def foldable(self, keep: float) -> Iterator[Atom]:
        """The atoms that may be folded, oldest first, without the newest that make up `keep` of the limit.

        The very newest is kept however large it is: the model has not seen it yet. Only `keep=0.0` gives it up.
        """
        atoms = self.view.atoms
        end = max(KeptTokens(int(self.limit * keep))(self.view)) if keep > 0 else len(atoms)
        yield from [atom for atom in atoms[:end] if not self.is_mandatory(atom)]

    def coverable(self, keep: float) -> Iterator[Atom]:
        """The atoms that may go as a whole: without what retention holds and the one that a running loop began with.

        As long as a tool loop runs, providers want back the thinking that opened it. Its results may be folded all the same.
        """
        opener = self.view.loop_opener()
        kept = None if opener is None else self.view.atoms[opener]
        wanted = self._wanted if keep > 0 else frozenset[str]()
        for atom in self.foldable(keep):
            if atom is not kept and not atom.is_held and wanted.isdisjoint(item.id for item in atom.items):
                yield atom

    def fold(self, at: tuple[str, int], text: str, *, level: str, policy: str, because: str) -> PartFold:
        """The proposal to show the part at (entry, index) by this text."""
        return PartFold(*at, level, text, self.count(text), policy, because)

    @staticmethod
    def ref(entry: str, part: int = 0) -> str:
        return short_ref(entry, part)

    @staticmethod
    def range_ref(first: str, last: str) -> str:
        return range_ref(first, last)


def fit(
    view: View,
    most: Size,
    aim: Size,
    stages: Sequence[Stage],
    *,
    tools_tokens: int = 0,
    wanted: WantedParts = NOTHING_WANTED,
    fetched: Mapping[str, str] = MappingProxyType({}),
    originals: Originals = _no_originals,
    trigger: Size | None = None,
    prices: Prices | None = None,
) -> Fold | None:
    """The folds that bring the view from above `trigger` (`most`, if not given) to `aim`. `OverBudget` if nothing can.

    None if it is small enough already, or cannot be made smaller and still fits. `tools_tokens` are already taken from the
    sizes; they are named in the error. `wanted` is shown again where the folds leave room, `fetched` (what stands behind
    references of covered entries) in the summary. By the `prices` follows what is worth to stay there.
    """
    if view.size.within(trigger or most):
        return None
    work = view.copy()
    work.changed_from = len(work.atoms)
    held = frozenset(entry for entry, _ in wanted)
    # Shares are of what the view is held to: a trigger far below the limit makes them smaller with it.
    limit = min(most.tokens, trigger.tokens) if trigger and trigger.tokens > aim.tokens else most.tokens
    least = _least(view, prices, limit, aim.tokens) if prices else 0.0
    scene = Scene(work, max(1, limit), aim, wanted=held, originals=originals, fetched=fetched, least=least)
    # Told at once where no fold can help: a session that is refused is asked again and again.
    mandatory = [atom for atom in work.atoms if scene.is_mandatory(atom)]
    if not total(atom.size for atom in mandatory).within(most):
        raise _over_budget(scene, mandatory, most, tools_tokens)
    middle = Size(*((a + m) // 2 for a, m in zip(_triple(aim), _triple(most), strict=True)))
    folds: list[FoldItem] = []
    for stage in stages:
        scene.goal = middle if stage.last_resort else aim
        if not work.size.within(scene.goal):
            folds.extend(_until(scene, stage))
    if not work.size.within(most):
        raise _over_budget(scene, work.atoms, most, tools_tokens)
    if not folds or _is_idle(view, work, most, aim, trigger or most):
        return None  # nothing can go: to try again at every call would change nothing
    kept_from = min((s.thinking_from(scene) for s in stages if isinstance(s, KeepsThinking)), default=len(work.atoms))
    thinking = list(_old_thinking(work, min(kept_from, work.loop_start())))
    work.apply(thinking)
    raised = list(_raised(scene, wanted, middle))
    first = min(work.changed_from, len(view.atoms))
    rebilled = sum(atom.size.tokens for atom in work.atoms[first:])
    kept = [item for item in folds if not _is_covered(work, item)]
    reason = _reason(view.size, trigger or most)
    return Fold((*kept, *thinking, *raised), reason, view.size.tokens, work.size.tokens, rebilled)


def _least(view: View, prices: Prices, limit: int, aim: int) -> float:
    """A session that grows slowly carries what it keeps through more calls, and so keeps less of it."""
    calls = calls_within(limit - aim, view.growth)
    return worth_carrying(prices, calls=calls, prompt=(limit + aim) // 2)


def _is_idle(view: View, work: View, most: Size, aim: Size, due: Size) -> bool:
    """Whether the folds leave the view where one is due again, for less than half of the room that a fold is to make.

    What must stay can be more than the trigger. Then a fold waits until it is worth moving the prefix.
    """
    saved = view.size.tokens - work.size.tokens
    return view.size.within(most) and not work.size.within(due) and 2 * saved < due.tokens - aim.tokens


def _until(scene: Scene, stage: Stage) -> Iterator[FoldItem]:
    """The folds that make the view smaller, until it is small enough. What is proposed for one entry goes together."""
    entry: str | None = None
    for proposed in stage(scene):
        batch = proposed if isinstance(proposed, tuple) else (proposed,)
        of = batch[0].entry if isinstance(batch[0], PartFold) else None
        if scene.view.size.within(scene.goal) and (of is None or of != entry):
            return
        for item in batch:
            if scene.view.shrinks(item):
                scene.view.apply((item,))
                entry = of
                yield item


def _raised(scene: Scene, wanted: WantedParts, most: Size) -> Iterator[PartFold]:
    """Folded results that were fetched again and again, shown once more as far as there is room."""
    for at, text in wanted.items():
        fold = scene.fold(at, text, level="recalled", policy="recall", because="the model fetched it again and again")
        if scene.view.place(at[0]) is not None and scene.view.size.tokens + fold.tokens <= most.tokens:
            scene.view.apply((fold,))
            yield fold


def _is_covered(view: View, item: FoldItem) -> bool:
    """Whether a later fold of the same batch covers what this one would show."""
    place = view.place(item.entry if isinstance(item, PartFold) else item.first)
    return place is None or (isinstance(item, PartFold) and view.atoms[place].gap is not None)


def _old_thinking(work: View, end: int) -> Iterator[PartFold]:
    """Thinking of finished tool loops: its signatures may be bound to the prefix that this fold is about to move."""
    for atom in work.atoms[:end]:
        for item in atom.items:
            for i, shown in enumerate(item.shown):
                if _is_thinking(shown) and not item.pinned:
                    because = "thinking of a finished loop goes when the prefix moves"
                    yield PartFold(item.id, i, "cleared", "", 0, "thinking", because)


def _is_thinking(shown: Shown) -> bool:
    return isinstance(shown.part, Thinking | RedactedThinking)


def _over_budget(scene: Scene, atoms: Sequence[Atom], most: Size, tools_tokens: int) -> OverBudget:
    """What is left of these atoms when everything that may be folded has been, in the unit that does not fit."""
    unit = _unit(total(atom.size for atom in atoms), most)
    parts = {"tools": tools_tokens} if unit == "tokens" else {}
    for atom in atoms:
        name = _part_name(scene, atom)
        parts[name] = parts.get(name, 0) + getattr(atom.size, unit)
    return OverBudget(getattr(most, unit) + parts.get("tools", 0), parts, unit)


def _part_name(scene: Scene, atom: Atom) -> str:
    if atom.kind == "system":
        return "system prompt"
    if atom.pinned:
        return "pinned entries"
    if atom.is_held:
        return "results that retention keeps"
    ids = {item.id for item in atom.items}
    if scene.view.last_user in ids:
        return "latest request"
    return "first request" if scene.view.first_user in ids else "stand-ins"


def _reason(size: Size, most: Size) -> str:
    unit = _unit(size, most)
    return f"{getattr(size, unit):,} {unit} of messages, {getattr(most, unit):,} allowed"


def _unit(size: Size, most: Size) -> str:
    """What there is too much of."""
    return "tokens" if size.tokens > most.tokens else "bytes" if size.bytes > most.bytes else "images"


def _triple(size: Size) -> tuple[int, int, int]:
    return size.tokens, size.bytes, size.images
