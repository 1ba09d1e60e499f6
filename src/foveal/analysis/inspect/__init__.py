"""Questions about stored sessions: the reasons for a prompt, its cost, the moves of its prefix, the next fold.

Every function takes a store and the name of a session, reads the log, and returns frozen values. Nothing is written.
"""

from foveal.analysis.inspect.calls import StoredCall, stored_calls
from foveal.analysis.inspect.cost import (
    CallCost,
    CallCostDetail,
    CostTotals,
    FoldCost,
    ReportedUsage,
    SessionCost,
    call_cost,
    cost,
)
from foveal.analysis.inspect.entry_history import (
    EntryHistory,
    FoldStep,
    PromptExplanation,
    PromptSummary,
    entry_history,
    why,
)
from foveal.analysis.inspect.history import CallHistory, SessionHistory, history, prefix_moves
from foveal.analysis.inspect.next_fold import NextFold, StaleLook, next_fold
from foveal.analysis.inspect.prefix_moves import PrefixMove, PrefixMoves
from foveal.analysis.inspect.stored_session import AbsentRendererWarning, copy_session, known_session, stored_prompt

__all__ = [
    "AbsentRendererWarning",
    "CallCost",
    "CallCostDetail",
    "CallHistory",
    "CostTotals",
    "EntryHistory",
    "FoldCost",
    "FoldStep",
    "NextFold",
    "PrefixMove",
    "PrefixMoves",
    "PromptExplanation",
    "PromptSummary",
    "ReportedUsage",
    "SessionCost",
    "SessionHistory",
    "StaleLook",
    "StoredCall",
    "call_cost",
    "copy_session",
    "cost",
    "entry_history",
    "history",
    "known_session",
    "next_fold",
    "prefix_moves",
    "stored_calls",
    "stored_prompt",
    "why",
]
