"""The interface between `fit` and the stages of a policy: the stage, its scene, its proposals and questions."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Protocol, TypeAlias, runtime_checkable

import msgspec

from foveal.fit.cuts import before_tokens
from foveal.project.atoms import loop_opener, open_calls
from foveal.project.facts import LatestSummary
from foveal.project.view import View
from foveal.values.entry import Entry, FoldItem, PartFold
from foveal.values.shown import Atom, Item, Size


class OriginalsNeeded(msgspec.Struct, frozen=True):
    """A question of a stage: the entries at these positions of the log, as they were recorded.

    A summary is made from originals and never from stand-ins. After it has yielded this, the stage finds them in
    `Scene.originals`.
    """

    seqs: tuple[int, ...]


Proposal: TypeAlias = FoldItem | tuple[FoldItem, ...] | OriginalsNeeded
"""A fold, or folds that only make sense together, or a question to answer first."""


Remembered: TypeAlias = dict[object, tuple[object, Any]]
"""Findings by a key of the finder's own: the value that a finding is about, and the finding. It holds for that very object."""


class Stage(Protocol):
    """One step of a policy: proposes folds, oldest first. `fit` stops iterating when the goal is reached."""

    @property
    def last_resort(self) -> bool: ...

    def __call__(self, scene: "Scene") -> Iterable[Proposal]: ...


@runtime_checkable
class KeepsThinking(Protocol):
    """A stage that keeps thinking of finished loops although the prefix moves."""

    def thinking_from(self, scene: "Scene") -> int:
        """Return the place of the first atom whose thinking stays."""
        ...


class Scene(msgspec.Struct):
    """The input of a stage: the view with the folds so far, the atoms that may be folded, and names and sizes for stand-ins."""

    view: View
    limit: int
    """Tokens that shares such as `keep` are shares of."""
    goal: Size
    """The size that the current stage is to reach."""
    wanted: frozenset[str] = frozenset()
    """Entries with parts that are shown again after the folds."""
    fetched: Mapping[str, str] = MappingProxyType({})
    """Originals of covered parts that the model fetched again and again, by reference."""
    least: float = 0.0
    """Least probability of being needed for a token to be worth its place in a summary."""
    originals: dict[int, Entry] = {}
    """Answers to `OriginalsNeeded`, by position in the log. Written by `fit`."""
    summarised: list[Item] = []
    """Items that the summary of this batch covers beyond the one before."""
    remembered: Remembered = {}
    """Findings of stages about values of the view, each beside the value that it is about: kept from one fit to the next."""

    @property
    def summary(self) -> LatestSummary:
        """The summary before this batch of folds."""
        return self.view.facts.summary

    @property
    def count(self) -> Callable[[str], int]:
        return self.view.projection.measure.count

    def is_mandatory(self, atom: Atom) -> bool:
        """Return whether an atom is never folded: system prompt, first and latest request, the newest calls, pins."""
        held = (self.view.facts.first_user, self.view.facts.last_user)
        is_held = atom.kind == "system" or atom.pinned or any(item.id in held for item in atom.items)
        return is_held or atom is open_calls(self.view.atoms)

    @property
    def newest(self) -> list[Atom]:
        """The mandatory atoms that may be cut where they are too large: requests, and the newest calls with their results."""
        facts, atoms = self.view.facts, self.view.atoms
        places = (self.view.place(entry) for entry in (facts.first_user, facts.last_user))
        found = [atoms[place] for place in dict.fromkeys(places) if place is not None]
        waiting = open_calls(atoms)
        return [atom for atom in (*found, *((waiting,) if waiting else ())) if atom.kind in ("user", "tools")]

    def foldable(self, keep: float) -> Iterator[Atom]:
        """Yield the atoms that may be folded, oldest first, without the newest that make up `keep` of the limit.

        Atoms that the model has not seen yet are kept however large. Only `keep=0.0` gives up those that are not mandatory.
        """
        atoms = self.view.atoms
        end = before_tokens(self.view, int(self.limit * keep)) if keep > 0 else len(atoms)
        yield from [atom for atom in atoms[:end] if not self.is_mandatory(atom)]

    def coverable(self, keep: float) -> Iterator[Atom]:
        """Yield the foldable atoms that may be covered whole: not held by retention, and not the opener of a running loop.

        While a tool loop runs, providers require the thinking that opened it. Results of the opener may still be folded.
        """
        opener = loop_opener(self.view.atoms)
        kept = None if opener is None else self.view.atoms[opener]
        wanted = self.wanted if keep > 0 else frozenset[str]()
        for atom in self.foldable(keep):
            if atom is not kept and not atom.is_held and wanted.isdisjoint(item.id for item in atom.items):
                yield atom

    def fold(self, at: tuple[str, int], text: str, *, level: str, policy: str, because: str) -> PartFold:
        """Return the proposal to show the part at (entry, index) by this text."""
        return PartFold(*at, level, text, self.count(text), policy, because)
