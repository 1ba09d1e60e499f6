"""What a log is looked at through."""

from collections.abc import Callable
from typing import TypeAlias

import msgspec

from foveal.core.entry import Part, ToolCall, ToolResult
from foveal.core.measure import Measure
from foveal.core.pins import NO_PINS, Pins

Hides: TypeAlias = Callable[[Part, str | None], str]
"""Why the dialect will not send this part, written by this model; empty if it will."""


RECALL_TOOL = "recall_context"
SEARCH_TOOL = "search_context"
"""The tools by which the model looks again. The view counts what is fetched, and shows what they return as it is."""

CHECKPOINT_TOOL = "checkpoint_context"
"""The tool by which the agent writes the summary itself."""


class Arrived(msgspec.Struct, frozen=True):
    """What retention makes of a result when it comes: its stand-in (None if it is shown whole) and what holds later."""

    text: str | None = None
    level: str = "full"
    because: str = ""
    floor: str = "covered"
    ttl_turns: int | None = None
    hint: str = ""


WHOLE = Arrived()

Arrive: TypeAlias = Callable[[ToolResult, ToolCall | None, str], Arrived]
"""Told the result, the call that it answers and its reference."""


def _whole(_result: ToolResult, _call: ToolCall | None, _ref: str) -> Arrived:
    return WHOLE


class Lens(msgspec.Struct, frozen=True):
    """What the log is looked at through: what the provider can take, how it counts, and what is pinned."""

    key: str
    measure: Measure
    hides: Hides
    pins: Pins = NO_PINS
    arrive: Arrive = _whole
