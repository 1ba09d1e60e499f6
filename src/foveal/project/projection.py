"""The rules by which messages of a log become shown parts: omit, repair, neutralise, measure, retain."""

from collections.abc import Callable
from typing import TypeAlias

import msgspec

from foveal.project.measure import Measure
from foveal.text.guard import OURS_ONLY, Guard
from foveal.text.repair import repair_part, sendable_part
from foveal.values.entry import Part, Role, ToolCall, ToolResult
from foveal.values.pins import NO_PINS, Pins

Omit: TypeAlias = Callable[[Part, str | None], str]
"""Returns why the dialect cannot send this part, written by this model; empty if it can."""

FORGED = "could be taken for the frame"
"""The reason recorded for a part that the guard changed."""


class Arrival(msgspec.Struct, frozen=True):
    """A result as retention shows it on arrival, with the lowest level that later folds may take it to."""

    text: str | None = None
    """The stand-in; None if the result is shown whole."""
    level: str = "full"
    because: str = ""
    floor: str = "covered"
    ttl_turns: int | None = None
    hint: str = ""


OnArrival: TypeAlias = Callable[[ToolResult, ToolCall | None, str], Arrival]
"""Takes a result, the call that it answers (None if unknown) and its reference."""

Signs: TypeAlias = Callable[[Part], bool]
"""Returns whether the dialect sends the signature of this part along, so that its words must stay."""


def _unsigned(_part: Part) -> bool:
    return False


def _whole(_result: ToolResult, _call: ToolCall | None, _ref: str) -> Arrival:
    return Arrival()


class Projection(msgspec.Struct, frozen=True):
    """Everything that a view depends on besides the log: provider rules, token measure, pins, retention, guard."""

    key: str
    """Names all of the others but `pins`. A snapshot is read only by a projection with the same key and pins."""
    measure: Measure
    omit: Omit
    pins: Pins = NO_PINS
    on_arrival: OnArrival = _whole
    guard: Guard = OURS_ONLY
    signs: Signs = _unsigned

    def prepared(
        self, parts: tuple[Part, ...], role: Role, *, is_file: bool = False
    ) -> tuple[tuple[Part, str, str], ...]:
        """Return each part of a message repaired and neutralised, the reason for a change, and which step made it.

        System messages are trusted and not neutralised. Users, tools and the model quote text of others. `is_file` is a
        message that holds an attached file.
        """
        mended = tuple(repair_part(part) for part in parts)
        sent = tuple(
            sendable_part(part) for part, _ in mended
        )  # two halves of a character join only when they are sent
        safe = self.guard.parts(sent, role, is_file=is_file, keeps_signature=self.signs)
        return tuple(
            (part, wrong, "repair" if wrong else "")
            if guarded is plain
            else (guarded, "; ".join(filter(None, (wrong, FORGED))), "frame")
            for (part, wrong), plain, guarded in zip(mended, sent, safe, strict=True)
        )
