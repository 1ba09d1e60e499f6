"""Which side context a session has: the part of a policy that `foveal.context` reads."""

import msgspec

from foveal.context.fences import FenceKind
from foveal.context.reminders.rule import ReminderRule as Reminder


class ContextOptions(msgspec.Struct, frozen=True, kw_only=True):
    fences: tuple[FenceKind, ...] = ()
    remind: bool = False
    reminders: tuple[Reminder, ...] = ()
    clock: str | None = None
    language: str = "en"
    catalogues: dict[str, dict[str, str]] = {}
