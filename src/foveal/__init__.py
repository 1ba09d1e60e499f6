"""Foveal, the context engine for LLM agents.

Append messages and replies, ask for the prompt, send it, ask why. The names that every user needs are here; the rest is in its
room: all errors in `foveal.errors`, events in `foveal.events`, the stages of a policy in `foveal.stages`.
"""

from typing import TYPE_CHECKING, Any

from foveal.context.fences import FenceKind
from foveal.context.injection import NextCall
from foveal.context.tool_retention import retain, rules_of
from foveal.fit import stages
from foveal.fit.stages.compact import Compact
from foveal.session.options import Host, Model
from foveal.session.policy import BudgetTable, Policy
from foveal.session.policy_file import read_policy
from foveal.session.session import Session
from foveal.stores import open_store
from foveal.stores.large_results import keep_stream
from foveal.values import errors, events
from foveal.values.entry import (
    Entry,
    File,
    Image,
    Message,
    Note,
    Pin,
    Text,
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
    BadInput,
    ContextOverflow,
    FovealError,
    MissingExtra,
    NotFound,
    OverBudget,
    SessionHeld,
    StoreError,
)
from foveal.values.lazy import later
from foveal.values.prompt import Prompt
from foveal.values.retention import RetentionRule
from foveal.values.trace import Trace

if TYPE_CHECKING:
    from foveal.context.environment import Environment
    from foveal.session.async_session import AsyncSession
    from foveal.summary.question import Question

_later = later(
    __name__,
    {
        "AsyncSession": "session.async_session",
        "Environment": "context.environment",
        "Question": "summary.question",
    },
)


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version  # noqa: PLC0415 - dear, and few ask

        return version("foveal")
    return _later(name)


__all__ = [
    "AsyncSession",
    "BadInput",
    "BudgetTable",
    "Compact",
    "ContextOverflow",
    "Entry",
    "Environment",
    "FenceKind",
    "File",
    "FovealError",
    "Host",
    "Image",
    "Message",
    "MissingExtra",
    "Model",
    "NextCall",
    "NotFound",
    "Note",
    "OverBudget",
    "Pin",
    "Policy",
    "Prompt",
    "Question",
    "RetentionRule",
    "Session",
    "SessionHeld",
    "StoreError",
    "Text",
    "ToolCall",
    "ToolResult",
    "Trace",
    "Unpin",
    "Usage",
    "assistant",
    "errors",
    "events",
    "keep_stream",
    "open_store",
    "read_policy",
    "result",
    "retain",
    "rules_of",
    "stages",
    "system",
    "user",
]
