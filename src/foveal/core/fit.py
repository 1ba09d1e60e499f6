"""From a view that is too large to a plan that fits: which folds, why now, and what the move costs.

The stages of a policy propose folds one by one, each seeing the view with the folds so far; `fit` applies them to a copy
until the target is reached. The result is data: nothing changes until the plan is recorded in the log.

Stages run in order. Those marked `last_resort` run only if the ones before them could not get the view below the middle
between target and limit: a view that sits just under its limit would be folded again at the next call, and each fold moves
the prefix.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Protocol, TypeAlias

from foveal.core.entry import Fold, FoldItem, PartFold, RedactedThinking, Thinking
from foveal.core.errors import OverBudget
from foveal.core.project import View
from foveal.core.view import Atom, Shown, Size, range_ref, short_ref, total

Wanted: TypeAlias = Mapping[tuple[str, int], str]
"""Originals, by entry and part, that are worth showing again."""

NOTHING_WANTED: Wanted = MappingProxyType({})


class Stage(Protocol):
    """One step of a policy: proposes folds, oldest first. The caller stops asking when the goal is reached."""

    @property
    def last_resort(self) -> bool: ...

    def __call__(self, scene: "Scene") -> Iterable[FoldItem]: ...


class Scene:
    """What a stage sees: the view so far, what may be folded, and how to name and measure a stand-in."""

    def __init__(self, view: View, limit: int, goal: Size, wanted: frozenset[str] = frozenset()) -> None:
        self.view = view
        self.limit = limit
        self.goal = goal
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
        atoms, left = self.view.atoms, int(self.limit * keep)
        end = len(atoms) - 1 if keep > 0 and atoms else len(atoms)
        left -= sum(atom.size.tokens for atom in atoms[end:])
        while end and left >= atoms[end - 1].size.tokens:
            end -= 1
            left -= atoms[end].size.tokens
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
    wanted: Wanted = NOTHING_WANTED,
) -> Fold | None:
    """The folds that bring the view from above `most` to `aim`; None if it fits. `OverBudget` if nothing can.

    `tools_tokens` are already taken from `most` and `aim`; they are named in the error. `wanted` is
    shown again where the folds leave room.
    """
    if view.size.within(most):
        return None
    work = view.copy()
    work.changed_from = len(work.atoms)
    scene = Scene(work, max(1, most.tokens), aim, frozenset(entry for entry, _ in wanted))
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
    thinking = list(_old_thinking(work))
    work.apply(thinking)
    raised = list(_raised(scene, wanted, middle))
    first = min(work.changed_from, len(view.atoms))
    rebilled = sum(atom.size.tokens for atom in work.atoms[first:])
    kept = [item for item in folds if not _is_covered(work, item)]
    return Fold((*kept, *thinking, *raised), _reason(view.size, most), view.size.tokens, work.size.tokens, rebilled)


def _until(scene: Scene, stage: Stage) -> Iterator[FoldItem]:
    """The folds that make the view smaller, until it is small enough. What is proposed for one entry goes together."""
    entry: str | None = None
    for item in stage(scene):
        of = item.entry if isinstance(item, PartFold) else None
        if scene.view.size.within(scene.goal) and (of is None or of != entry):
            return
        if scene.view.shrinks(item):
            scene.view.apply((item,))
            entry = of
            yield item


def _raised(scene: Scene, wanted: Wanted, most: Size) -> Iterator[PartFold]:
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


def _old_thinking(work: View) -> Iterator[PartFold]:
    """Thinking of finished tool loops: its signatures may be bound to the prefix that this fold is about to move."""
    for atom in work.atoms[: work.loop_start()]:
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
