"""Values that say how a session is opened: the model, the parts that the host brings, the sources of time and ids."""

import time
from base64 import b32encode
from collections.abc import Callable, Mapping
from secrets import token_bytes
from typing import TYPE_CHECKING

import msgspec

from foveal.project.arrival import NO_RENDERERS, Renderers
from foveal.text.redaction import Redactor
from foveal.values.events import Listener, ignore
from foveal.values.retention import RetentionRule

if TYPE_CHECKING:
    from foveal.context.environment import Environment
    from foveal.models.counters import ModelCounter
    from foveal.writers.port import Summariser


class Model(msgspec.Struct, frozen=True):
    """A model by name, with a dialect and a counter where the catalogue's are not wanted."""

    id: str
    dialect: str | None = None
    """`openai_chat`, `openai_responses`, `anthropic` or `gemini`; by default the one of the model's provider."""
    counter: "ModelCounter | None" = None
    """Counts in place of the model's own counter, for budgets that are given in other tokens."""


class Host(msgspec.Struct, frozen=True, kw_only=True):
    """The parts that the host program brings to a session."""

    summariser: "Summariser | None" = None
    """Writes the prose of summaries; without one, code alone writes them."""
    on_event: Listener = ignore
    """Called with each event of the session."""
    environment: "Environment | None" = None
    """Workspace, skills, instructions and tools on demand, shown beside the conversation."""
    retention: Mapping[str, RetentionRule] | None = None
    """Rules that tools were declared with, by tool name; `foveal.rules_of` collects them. None leaves
    those in force that the log has of earlier prompts; an empty mapping ends them."""
    renderers: Renderers = NO_RENDERERS
    """Functions that shorten the results of a tool in the host's own way, by tool name."""
    allowed_tools: frozenset[str] | None = None
    """Names of the tools that may be offered; None allows all."""
    author: str = "agent"
    """Recorded as the author of the session's entries."""
    redact: Redactor | None = None
    """Takes the secrets out of each text that is appended, before it is recorded: `foveal.text.redaction.redact_secrets`, or a
    function of the host's own."""


def now_ms() -> int:
    """Return the time in milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def _random_id() -> str:
    return b32encode(token_bytes(16))[:26].decode().lower()


def _random_secret() -> bytes:
    return token_bytes(32)


class Clock(msgspec.Struct, frozen=True):
    """Sources of entry ids, of time and of secrets. Replays and tests give their own, so that the same run gives the same
    bytes."""

    new_id: Callable[[], str] = _random_id
    now_ms: Callable[[], int] = now_ms
    new_secret: Callable[[], bytes] = _random_secret
    """The secret of a session that is made when it is opened; `store.secret` returns it."""
