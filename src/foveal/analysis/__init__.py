"""Questions about sessions after the fact.

`inspect` answers them for stored sessions (the names of this module), `recordings` reads the files of other programs, `replay`
says what Foveal would have sent for them, `measurement` compares policies on them, `tune` picks a policy for them, and
`agreement` asks a model whether the folds changed its next actions.
"""

from typing import TYPE_CHECKING

from foveal.values.lazy import later

if TYPE_CHECKING:
    from foveal.analysis.inspect.cost import SessionCost, call_cost, cost
    from foveal.analysis.inspect.entry_history import EntryHistory, PromptExplanation, entry_history, why
    from foveal.analysis.inspect.event_log import LoggedEvent, events, tail
    from foveal.analysis.inspect.history import CallHistory, SessionHistory, history, prefix_moves
    from foveal.analysis.inspect.next_fold import NextFold, next_fold
    from foveal.analysis.inspect.prefix_moves import PrefixMoves

__all__ = [
    "CallHistory",
    "EntryHistory",
    "LoggedEvent",
    "NextFold",
    "PrefixMoves",
    "PromptExplanation",
    "SessionCost",
    "SessionHistory",
    "call_cost",
    "cost",
    "entry_history",
    "events",
    "history",
    "next_fold",
    "prefix_moves",
    "tail",
    "why",
]

__getattr__ = later(
    __name__,
    {
        **dict.fromkeys(("SessionCost", "call_cost", "cost"), "inspect.cost"),
        **dict.fromkeys(("EntryHistory", "PromptExplanation", "entry_history", "why"), "inspect.entry_history"),
        **dict.fromkeys(("LoggedEvent", "events", "tail"), "inspect.event_log"),
        **dict.fromkeys(("CallHistory", "SessionHistory", "history", "prefix_moves"), "inspect.history"),
        **dict.fromkeys(("NextFold", "next_fold"), "inspect.next_fold"),
        "PrefixMoves": "inspect.prefix_moves",
    },
)
