"""Foveal, the context engine for LLM agents.

Append what happened, ask for the prompt, send it, ask why. Everything that a user needs is a name of this module.
"""

from typing import TYPE_CHECKING, Any

from foveal.config import read_policy
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
    Unrepresentable,
)
from foveal.core.prompt import Prompt
from foveal.core.retention import Rule
from foveal.core.trace import Line, Trace
from foveal.declare import retain, rules_of
from foveal.offload import keep_stream
from foveal.optics import UnknownModelWarning
from foveal.policies import (
    BudgetTable,
    Clear,
    Expired,
    History,
    Images,
    Oldest,
    Outline,
    Policy,
    Repeats,
    Shorten,
    Superseded,
    ThinkingWindow,
)
from foveal.session import Session
from foveal.stores import open_store

if TYPE_CHECKING:
    from foveal.async_session import AsyncSession


def __getattr__(name: str) -> Any:
    """`AsyncSession` is loaded when it is asked for: asyncio is a third of what an import would cost."""
    if name == "AsyncSession":
        from foveal.async_session import AsyncSession  # noqa: PLC0415 - see above

        return AsyncSession
    raise AttributeError(f"module 'foveal' has no attribute {name!r}")


__all__ = [
    "AsyncSession",
    "BadEntry",
    "BadInput",
    "BadPolicy",
    "BadRecording",
    "Budget",
    "BudgetTable",
    "Clear",
    "Entry",
    "Expired",
    "Fenced",
    "File",
    "Fold",
    "FovealError",
    "History",
    "Image",
    "Images",
    "InvalidPrompt",
    "Line",
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
    "Prompt",
    "RedactedThinking",
    "Repeats",
    "Rule",
    "SchemaTooNew",
    "Session",
    "SessionHeld",
    "Shorten",
    "StoreBusy",
    "StoreCorrupt",
    "StoreError",
    "StoreFailed",
    "StoreFull",
    "Stored",
    "Superseded",
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
    "assistant",
    "keep_stream",
    "open_store",
    "read_policy",
    "result",
    "retain",
    "rules_of",
    "system",
    "user",
]
