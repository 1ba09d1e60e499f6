"""Which lines of what is folded will be needed again, and how they are shown. Pure.

`update` takes what is newly folded into a `Digest`: the lines that may be needed again, and how often each name in them has been
seen and used. `choose` shows the best of them under a number of tokens. A line is worth what it names: each name, and the line
itself, has a chance of being needed again (`score`), and counts once however often it is shown.
"""

from typing import TYPE_CHECKING

from foveal.values.lazy import later

if TYPE_CHECKING:
    from foveal.summary.relevance.choosing import choose
    from foveal.summary.relevance.scoring import USUAL, Scoring, Standard
    from foveal.summary.relevance.state import Digest
    from foveal.summary.relevance.updating import update
    from foveal.summary.relevance.weights import Weights

# A policy may hold weights, and loads nothing of the rest before something is folded.
_WHERE = {
    "USUAL": "scoring",
    "Digest": "state",
    "Scoring": "scoring",
    "Standard": "scoring",
    "Weights": "weights",
    "choose": "choosing",
    "update": "updating",
}

__getattr__ = later(__name__, _WHERE)

__all__ = ["USUAL", "Digest", "Scoring", "Standard", "Weights", "choose", "update"]
