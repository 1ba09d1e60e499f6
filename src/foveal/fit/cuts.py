"""The legal cuts of a view: places where it may be divided into a summarised part and the rest.

A cut is a place between two atoms: 0 is before the first, `len(atoms)` after the last. Each rule says which places it allows;
a legal cut is one that all of them allow. Two things need no rule, because an atom cannot be cut: a call and its results, and the
calls of one reply. Nor does content that stays wherever the cut is: pins, requests, atoms that retention holds, the thinking
that opened the running tool loop. The thinking of finished loops is removed by every fold.
"""

from collections.abc import Iterable
from typing import Protocol

import msgspec

from foveal.project.view import View

Places = frozenset[int]


class CutRule(Protocol):
    """Returns the cuts that it allows. Place 0, which covers nothing, is always allowed."""

    def __call__(self, view: View) -> Places: ...


class AnsweredCalls(msgspec.Struct, frozen=True):
    """Allows no cut after the first call that still waits for its result."""

    def __call__(self, view: View) -> Places:
        waiting = (i for i, atom in enumerate(view.atoms) if atom.kind == "tools" and None in atom.answers)
        running = [i for i in waiting if i >= view.transcript.settled]
        return _up_to(min(running, default=len(view.atoms)))


class KeptTokens(msgspec.Struct, frozen=True):
    """Keeps the newest atoms that fit in `tokens` together, and the very newest however large it is."""

    tokens: int

    def __call__(self, view: View) -> Places:
        end, left = len(view.atoms), self.tokens
        while end and (left >= view.atoms[end - 1].size.tokens or end == len(view.atoms)):
            end -= 1
            left -= view.atoms[end].size.tokens
        return _up_to(end)


class KeptMessages(msgspec.Struct, frozen=True):
    """Keeps the newest `messages` messages."""

    messages: int

    def __call__(self, view: View) -> Places:
        end, left = len(view.atoms), self.messages
        while end and left > 0:
            end -= 1
            left -= len(view.atoms[end].items)
        return _up_to(end)


class KeptTurns(msgspec.Struct, frozen=True):
    """Keeps the newest `turns` turns, each from its user message on."""

    turns: int

    def __call__(self, view: View) -> Places:
        words = [i for i, atom in enumerate(view.atoms) if atom.items and atom.items[0].role == "user"]
        if not self.turns:
            return _up_to(len(view.atoms))
        return _up_to(words[-self.turns] if len(words) >= self.turns else 0)


class WorthIt(msgspec.Struct, frozen=True):
    """Allows only cuts that cover more than `tokens`, the size of the summary: others move the prefix for nothing."""

    tokens: int

    def __call__(self, view: View) -> Places:
        covered, places = 0, {0}
        for i, atom in enumerate(view.atoms):
            covered += atom.size.tokens * (not atom.is_held and atom.kind != "system")
            if covered > self.tokens:
                places.add(i + 1)
        return frozenset(places)


def legal(view: View, rules: Iterable[CutRule]) -> list[int]:
    """Return the cuts that every rule allows, earliest first; 0 is always among them."""
    places = set(_up_to(len(view.atoms)))
    for rule in rules:
        places &= rule(view)
    return sorted(places | {0})


def _up_to(place: int) -> Places:
    return frozenset(range(place + 1))
