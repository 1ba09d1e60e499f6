"""Questions about sessions after the fact.

`inspect` answers them for stored sessions (the names of this module), `recordings` reads the files of other programs, `replay`
says what Foveal would have sent for them, `measurement` compares policies on them, and `tune` picks a policy for them.
"""

from typing import TYPE_CHECKING

from foveal.values.lazy import later

if TYPE_CHECKING:
    from foveal.analysis.inspect import (
        CallHistory,
        EntryHistory,
        NextFold,
        PrefixMoves,
        PromptExplanation,
        SessionCost,
        SessionHistory,
        call_cost,
        cost,
        entry_history,
        history,
        next_fold,
        prefix_moves,
        why,
    )

__all__ = [
    "CallHistory",
    "EntryHistory",
    "NextFold",
    "PrefixMoves",
    "PromptExplanation",
    "SessionCost",
    "SessionHistory",
    "call_cost",
    "cost",
    "entry_history",
    "history",
    "next_fold",
    "prefix_moves",
    "why",
]

__getattr__ = later(__name__, dict.fromkeys(__all__, "inspect"))
