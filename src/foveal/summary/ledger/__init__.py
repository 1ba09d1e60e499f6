"""The ledger: facts about a session that code extracts without a model. Files, commands, failures, todos, the user's words,
identifiers. Pure.

    ledger = update(EMPTY, steps)                       # the first range that is folded
    ledger = update(ledger, more)                       # the next; older messages are never needed again
    render(ledger, 1_500, counter.count)                # the ledger's text in the summary
"""

from foveal.summary.ledger.builder import LedgerBuilder
from foveal.summary.ledger.events import LedgerStep
from foveal.summary.ledger.extraction import take_step, update
from foveal.summary.ledger.items import EMPTY, Ledger
from foveal.summary.ledger.render import HELPFUL, VITAL, render

__all__ = ["EMPTY", "HELPFUL", "VITAL", "Ledger", "LedgerBuilder", "LedgerStep", "render", "take_step", "update"]
