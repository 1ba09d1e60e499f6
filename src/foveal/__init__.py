"""Foveal, the context engine for LLM agents.

Append messages and replies, ask for the prompt, send it, ask why. The names that every user needs are here; the rest is in its
room: all errors in `foveal.errors`, events in `foveal.events`, the stages of a policy in `foveal.stages`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from foveal.values.lazy import later

if TYPE_CHECKING:
    from foveal.context.environment import Environment
    from foveal.context.fences import FenceKind
    from foveal.context.injection import NextCall
    from foveal.context.tool_retention import retain, rules_of
    from foveal.fit import stages
    from foveal.integrations.wrap import wrap
    from foveal.session.async_session import AsyncSession
    from foveal.session.options import Host, Model
    from foveal.session.policy import BudgetTable, Policy
    from foveal.session.policy_file import read_policy
    from foveal.session.session import Session
    from foveal.stores import open_store
    from foveal.stores.large_results import keep_stream
    from foveal.summary.question import Question
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
    from foveal.values.prompt import Prompt
    from foveal.values.retention import RetentionRule
    from foveal.values.trace import Trace

_ROOMS = {"stages": "fit.stages", "errors": "values.errors", "events": "values.events"}
_later = later(
    __name__,
    {
        "AsyncSession": "session.async_session",
        "BadInput": "values.errors",
        "BudgetTable": "session.policy",
        "ContextOverflow": "values.errors",
        "Entry": "values.entry",
        "Environment": "context.environment",
        "FenceKind": "context.fences",
        "File": "values.entry",
        "FovealError": "values.errors",
        "Host": "session.options",
        "Image": "values.entry",
        "Message": "values.entry",
        "MissingExtra": "values.errors",
        "Model": "session.options",
        "NextCall": "context.injection",
        "NotFound": "values.errors",
        "Note": "values.entry",
        "OverBudget": "values.errors",
        "Pin": "values.entry",
        "Policy": "session.policy",
        "Prompt": "values.prompt",
        "Question": "summary.question",
        "RetentionRule": "values.retention",
        "Session": "session.session",
        "SessionHeld": "values.errors",
        "StoreError": "values.errors",
        "Text": "values.entry",
        "ToolCall": "values.entry",
        "ToolResult": "values.entry",
        "Trace": "values.trace",
        "Unpin": "values.entry",
        "Usage": "values.entry",
        "assistant": "values.entry",
        "keep_stream": "stores.large_results",
        "open_store": "stores",
        "read_policy": "session.policy_file",
        "result": "values.entry",
        "retain": "context.tool_retention",
        "rules_of": "context.tool_retention",
        "system": "values.entry",
        "user": "values.entry",
        "wrap": "integrations.wrap",
    },
)


def __getattr__(name: str) -> Any:
    """Load a name when it is first used: the command shows its help without loading the engine."""
    if name == "__version__":
        from importlib.metadata import version  # noqa: PLC0415 - dear, and few ask

        return version("foveal")
    globals()[name] = found = import_module(f"foveal.{_ROOMS[name]}") if name in _ROOMS else _later(name)
    return found


__all__ = [
    "AsyncSession",
    "BadInput",
    "BudgetTable",
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
    "wrap",
]
