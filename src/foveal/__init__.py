"""Foveal, the context engine for LLM agents.

Append what happened, ask for the prompt, send it, ask why. Everything that a user needs is a name of this module.
"""

from typing import TYPE_CHECKING

from foveal.config import read_policy, read_weights
from foveal.core.budget import Budget
from foveal.core.entry import (
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
from foveal.core.errors import (
    BadEntry,
    BadInput,
    BadPolicy,
    BadRecording,
    ContextOverflow,
    Fenced,
    FovealError,
    InvalidPrompt,
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
from foveal.core.later import later
from foveal.core.prompt import Prompt
from foveal.core.retention import Rule
from foveal.core.trace import Line, Trace
from foveal.declare import retain, rules_of
from foveal.offload import keep_stream
from foveal.optics import UnknownModelWarning
from foveal.policies import (
    BudgetTable,
    Clear,
    Compact,
    Expired,
    FenceKind,
    History,
    Images,
    Oldest,
    Outline,
    Policy,
    Repeats,
    Shorten,
    Summarise,
    Superseded,
    ThinkingWindow,
)
from foveal.session import Session
from foveal.stores import open_store

if TYPE_CHECKING:
    from foveal.async_session import AsyncSession
    from foveal.beside import Host
    from foveal.events import CompactionEnded, CompactionStarted, Pressure, SummaryRefused
    from foveal.inject.instructions import Instructions
    from foveal.inject.mentions import Mentioned
    from foveal.inject.skills import Skills
    from foveal.inject.toolbox import toolbox
    from foveal.summary.question import Question
    from foveal.surroundings import Surroundings
    from foveal.workspace import Workspace

_LATER = {
    "AsyncSession": "async_session",
    "CompactionEnded": "events",
    "CompactionStarted": "events",
    "Host": "beside",
    "Instructions": "inject.instructions",
    "Mentioned": "inject.mentions",
    "Pressure": "events",
    "Question": "summary.question",
    "Skills": "inject.skills",
    "SummaryRefused": "events",
    "Surroundings": "surroundings",
    "Workspace": "workspace",
    "toolbox": "inject.toolbox",
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
    "Expired",
    "FenceKind",
    "Fenced",
    "File",
    "Fold",
    "FovealError",
    "History",
    "Host",
    "Image",
    "Images",
    "Instructions",
    "InvalidPrompt",
    "Line",
    "Mentioned",
    "Message",
    "MissingExtra",
    "NotFound",
    "Note",
    "Oldest",
    "Opaque",
    "Outline",
    "OverBudget",
    "Pin",
    "Policy",
    "Pressure",
    "Prompt",
    "Question",
    "RedactedThinking",
    "Repeats",
    "Rule",
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
    "Surroundings",
    "Text",
    "Thinking",
    "ThinkingWindow",
    "ToolCall",
    "ToolResult",
    "Trace",
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
