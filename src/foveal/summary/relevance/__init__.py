"""Relevance: the folded lines that are likely to be needed again, and their text in a summary. Pure.

`update` adds newly folded messages to a `RelevanceState`: the lines that may be needed again, and how often each name in
them has been seen and used. `choose` shows the best of them in a number of tokens. A line is worth the names in it: each
name, and the line itself, has a chance of being needed again (`score`), and counts once even if it is shown in several
lines.
"""

from typing import TYPE_CHECKING

from foveal.values.lazy import later

if TYPE_CHECKING:
    from foveal.summary.relevance.collector import room_for, update
    from foveal.summary.relevance.score import DEFAULT_SELECTION, LineSelection
    from foveal.summary.relevance.selection import choose
    from foveal.summary.relevance.state import RelevanceState
    from foveal.summary.relevance.weights import Scoring

# A policy may hold weights, and loads nothing else of this room before something is folded.
_NAMES = {
    "collector": "room_for update",
    "score": "DEFAULT_SELECTION LineSelection",
    "selection": "choose",
    "state": "RelevanceState",
    "weights": "Scoring",
}

__getattr__ = later(__name__, {name: module for module, names in _NAMES.items() for name in names.split()})

__all__ = ["DEFAULT_SELECTION", "LineSelection", "RelevanceState", "Scoring", "choose", "room_for", "update"]
