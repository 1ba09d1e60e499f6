"""What a log is looked at through."""

from collections.abc import Callable
from typing import TypeAlias

import msgspec

from foveal.project.measure import Measure
from foveal.text.repair import repair_part
from foveal.values.entry import Part, Role, ToolCall, ToolResult
from foveal.values.pins import NO_PINS, Pins

Hides: TypeAlias = Callable[[Part, str | None], str]
"""Why the dialect will not send this part, written by this model; empty if it will."""


RECALL_TOOL = "recall_context"
SEARCH_TOOL = "search_context"
"""The tools by which the model looks again. The view counts what is fetched, and shows what they return as it is."""

FORGED = "could be taken for the frame"
"""Why the guard changed a part."""

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


Guard: TypeAlias = Callable[[Part], Part]
"""A part that nobody vouches for, with what could be taken for the host's own words made harmless; else the very same."""


def _as_is(part: Part) -> Part:
    return part


def _whole(_result: ToolResult, _call: ToolCall | None, _ref: str) -> Arrived:
    return WHOLE


class Projection(msgspec.Struct, frozen=True):
    """What the log is looked at through: what the provider can take, how it counts, and what is pinned.

    What the guard is may not change without the key: snapshots are read through the same lens that they were made through.
    """

    key: str
    measure: Measure
    hides: Hides
    pins: Pins = NO_PINS
    arrive: Arrive = _whole
    guard: Guard = _as_is

    def normal(self, part: Part, role: Role) -> tuple[Part, str, str]:
        """The part as every provider takes it and nobody is fooled by it; what was wrong with it; who mended it.

        Only what the system says is believed: users, tools and the model itself quote what others wrote.
        """
        mended, wrong = repair_part(part)
        safe = mended if role == "system" else self.guard(mended)
        if safe is mended:
            return mended, wrong, "repair" if wrong else ""
        return safe, "; ".join(filter(None, (wrong, FORGED))), "frame"
