"""The rules by which messages of a log become shown parts: omit, repair, neutralise, measure, retain."""

from collections.abc import Callable
from typing import TypeAlias

import msgspec

from foveal.project.measure import Measure
from foveal.text.guard import OURS_ONLY, Guard
from foveal.text.repair import repair_part, sendable_part
from foveal.values.entry import Content, File, Image, Part, Role, Text, ToolCall, ToolResult
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

FitMedia: TypeAlias = Callable[[Image | File, Role], tuple[Image | File | Text, str]]
"""Returns an image or a file as the provider takes it, or the line in its place, and the reason for a change."""


def _unsigned(_part: Part) -> bool:
    return False


def _unchecked(item: Image | File, _role: Role) -> tuple[Image | File | Text, str]:
    return item, ""


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
    fit_media: FitMedia = _unchecked
    nonce: str = ""
    """The nonce of the engine's own tags. It is of use for what is said next; the log has what was said."""

    def prepared(
        self, parts: tuple[Part, ...], role: Role, *, is_file: bool = False
    ) -> tuple[tuple[Part, str, str], ...]:
        """Return each part of a message repaired, neutralised and with media that the provider takes, the reason for a change,
        and which step made it.

        System messages are trusted and not neutralised. Users, tools and the model quote text of others. `is_file` is a
        message that holds an attached file.
        """
        mended = tuple(repair_part(part) for part in parts)
        # Two halves of a character join only when they are sent.
        sent = tuple(sendable_part(part) for part, _ in mended)
        safe = self.guard.parts(sent, role, is_file=is_file, keeps_signature=self.signs)
        return tuple(
            self._with_media(part, role, wrong, "repair" if wrong else "")
            if guarded is plain
            else self._with_media(guarded, role, "; ".join(filter(None, (wrong, FORGED))), "frame")
            for (part, wrong), plain, guarded in zip(mended, sent, safe, strict=True)
        )

    def _with_media(self, part: Part, role: Role, wrong: str, policy: str) -> tuple[Part, str, str]:
        """Return the part with images and files as the provider takes them; an objection is added to the reasons."""
        fitted, objections = self._fitted(part, role)
        return (
            (fitted, "; ".join(filter(None, (wrong, *objections))), "dialect") if objections else (part, wrong, policy)
        )

    def _fitted(self, part: Part, role: Role) -> tuple[Part, list[str]]:
        if isinstance(part, Image | File):
            fitted, reason = self.fit_media(part, role)
            return fitted, [reason] if reason else []
        if not isinstance(part, ToolResult) or not any(isinstance(item, Image | File) for item in part.content):
            return part, []
        pairs: list[tuple[Content, str]] = [
            self.fit_media(item, role) if isinstance(item, Image | File) else (item, "") for item in part.content
        ]
        content = tuple(item for item, _ in pairs)
        return msgspec.structs.replace(part, content=content), list(dict.fromkeys(why for _, why in pairs if why))
