"""Foveal, the context engine for LLM agents.

Append what happened, ask for the prompt, send it, ask why. Everything that a user needs is a name of this module.
"""

from typing import TYPE_CHECKING

from foveal.context.environment import Environment
from foveal.context.injection import NextCall
from foveal.context.mentions import Mentioned
from foveal.context.tool_retention import retain, rules_of
from foveal.session.model_setup import UnknownModelWarning
from foveal.session.policy import (
    BudgetTable,
    Clear,
    Compact,
    Expired,
    FenceKind,
    History,
    Images,
    Outline,
    Policy,
    Shorten,
    Summarise,
    Superseded,
    ThinkingWindow,
)
from foveal.session.policy_file import read_policy, read_weights
from foveal.session.session import Session
from foveal.stores import open_store
from foveal.stores.large_results import keep_stream
from foveal.values.budget import Budget
from foveal.values.entry import (
    Entry,
    File,
    Fold,
    Image,
    Message,
    Note,
    Opaque,
    Pin,
    RedactedThinking,
    Stored,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Unpin,
    Usage,
    assistant,
    result,
    system,
    user,
)
from foveal.values.errors import (
    BadEntry,
    BadInput,
    BadPolicy,
    BadRecording,
    ContextOverflow,
    FovealError,
    InvalidPrompt,
    LeaseLost,
    MissingExtra,
    NotFound,
    OverBudget,
    SchemaTooNew,
    SessionHeld,
    StoreBusy,
    StoreCorrupt,
    StoreError,
    StoreFailed,
    StoreFull,
    SummaryFailed,
    Unrepresentable,
)
from foveal.values.lazy import later
from foveal.values.prompt import Prompt
from foveal.values.retention import RetentionRule
from foveal.values.trace import Trace, TraceLine

if TYPE_CHECKING:
    from foveal.context.instructions import Instructions
    from foveal.context.skills import Skills
    from foveal.context.toolbox import toolbox
    from foveal.context.workspace import Workspace
    from foveal.session.async_session import AsyncSession
    from foveal.summary.question import Question
    from foveal.values.events import CompactionEnded, CompactionStarted, Pressure, SummaryRefused

_LATER = {
    "AsyncSession": "session.async_session",
    "CompactionEnded": "values.events",
    "CompactionStarted": "values.events",
    "Instructions": "context.instructions",
    "Pressure": "values.events",
    "Question": "summary.question",
    "Skills": "context.skills",
    "SummaryRefused": "values.events",
    "Workspace": "context.workspace",
    "toolbox": "context.toolbox",
}

__getattr__ = later(__name__, _LATER)

__all__ = [
    "AsyncSession",
    "BadEntry",
    "BadInput",
    "BadPolicy",
    "BadRecording",
    "Budget",
    "BudgetTable",
    "Clear",
    "Compact",
    "CompactionEnded",
    "CompactionStarted",
    "ContextOverflow",
    "Entry",
    "Environment",
    "Expired",
    "FenceKind",
    "File",
    "Fold",
    "FovealError",
    "History",
    "Image",
    "Images",
    "Instructions",
    "InvalidPrompt",
    "LeaseLost",
    "Mentioned",
    "Message",
    "MissingExtra",
    "NextCall",
    "NotFound",
    "Note",
    "Opaque",
    "Outline",
    "OverBudget",
    "Pin",
    "Policy",
    "Pressure",
    "Prompt",
    "Question",
    "RedactedThinking",
    "RetentionRule",
    "SchemaTooNew",
    "Session",
    "SessionHeld",
    "Shorten",
    "Skills",
    "StoreBusy",
    "StoreCorrupt",
    "StoreError",
    "StoreFailed",
    "StoreFull",
    "Stored",
    "Summarise",
    "SummaryFailed",
    "SummaryRefused",
    "Superseded",
    "Text",
    "Thinking",
    "ThinkingWindow",
    "ToolCall",
    "ToolResult",
    "Trace",
    "TraceLine",
    "UnknownModelWarning",
    "Unpin",
    "Unrepresentable",
    "Usage",
    "Workspace",
    "assistant",
    "keep_stream",
    "open_store",
    "read_policy",
    "read_weights",
    "result",
    "retain",
    "rules_of",
    "system",
    "toolbox",
    "user",
]
