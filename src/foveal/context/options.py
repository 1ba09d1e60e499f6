"""The options of a policy that concern side context."""

import msgspec

from foveal.context.fences import FenceKind
from foveal.context.reminders import ReminderRule


class ContextOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The kinds of fences, the reminders, the clock and the memory of a session."""

    fences: tuple[FenceKind, ...] = ()
    remind: bool = False
    reminders: tuple[ReminderRule, ...] = ()
    clock: str | None = None
    language: str = "en"
    catalogues: dict[str, dict[str, str]] = {}
    foresight: float = 0.0
    memory: str | None = None
