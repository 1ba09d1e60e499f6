"""Reminders: short texts for one call, after the last message, never part of the conversation. Pure."""

from typing import TYPE_CHECKING

from foveal.context.reminders.evaluation import MOST_TOKENS, Frame, Reminded, Reminder, Suppressed, evaluate
from foveal.context.reminders.loops import FRESH, Repeated, Trail, found, repetition, update
from foveal.context.reminders.rules import BUILT_IN, Catalogues, ReminderRule, Rulebook, rulebook
from foveal.context.reminders.situation import OneShot, Situation, Upload
from foveal.context.reminders.triggers import Trigger
from foveal.values.lazy import later

if TYPE_CHECKING:
    from foveal.context.reminders.session_reminders import SessionReminders

# Loads the ledger, which a session without reminders does not need before its first fold.
__getattr__ = later(__name__, {"SessionReminders": "session_reminders"})

__all__ = [
    "BUILT_IN",
    "FRESH",
    "MOST_TOKENS",
    "Catalogues",
    "Frame",
    "OneShot",
    "Reminded",
    "Reminder",
    "ReminderRule",
    "Repeated",
    "Rulebook",
    "SessionReminders",
    "Situation",
    "Suppressed",
    "Trail",
    "Trigger",
    "Upload",
    "evaluate",
    "found",
    "repetition",
    "rulebook",
    "update",
]
