"""What code knows of a session without asking a model: files, commands, failures, todos, the user's words, identifiers. Pure.

ledger = update(EMPTY, steps)                       # the first range that is folded
ledger = update(ledger, more)                       # the next; older messages are never needed again
render(ledger, 1_500, counter.count)                # what stands in the summary
missing(ledger, summary)                            # what a written summary forgot
"""

from foveal.ledger.events import Began, Ended, Event, Extractor, Fact, Said, Step
from foveal.ledger.extractors import EXTRACTORS
from foveal.ledger.holding import identifiers, missing
from foveal.ledger.items import EMPTY, Ledger
from foveal.ledger.render import HELPFUL, VITAL, render
from foveal.ledger.updating import update

__all__ = [
    "EMPTY",
    "EXTRACTORS",
    "HELPFUL",
    "VITAL",
    "Began",
    "Ended",
    "Event",
    "Extractor",
    "Fact",
    "Ledger",
    "Said",
    "Step",
    "identifiers",
    "missing",
    "render",
    "update",
]
