"""Reminders: short texts for one call, after the last message, never part of the conversation. Pure."""

from typing import TYPE_CHECKING

from foveal.values.lazy import later

if TYPE_CHECKING:
    from foveal.context.reminders.evaluating import (
        MOST_TOKENS,
        Frame,
        Reminded,
        Reminder,
        Suppressed,
        evaluate,
    )
    from foveal.context.reminders.loops import FRESH, Repeated, Trail, found, repetition, update
    from foveal.context.reminders.rules import BUILT_IN, Catalogues, ReminderRule, Rulebook, rulebook
    from foveal.context.reminders.situation import OneShot, Situation, Thresholds, Upload
    from foveal.context.reminders.triggers import Trigger

_WHERE = {
    "BUILT_IN": "rules",
    "Catalogues": "rules",
    "FRESH": "loops",
    "Frame": "evaluating",
    "MOST_TOKENS": "evaluating",
    "OneShot": "situation",
    "Reminded": "evaluating",
    "Reminder": "evaluating",
    "Repeated": "loops",
    "ReminderRule": "rule",
    "Rulebook": "rules",
    "Situation": "situation",
    "Suppressed": "evaluating",
    "Thresholds": "rule",
    "Trail": "loops",
    "Trigger": "triggers",
    "Upload": "situation",
    "evaluate": "evaluating",
    "found": "loops",
    "repetition": "loops",
    "rulebook": "rules",
    "update": "loops",
}

__getattr__ = later(__name__, _WHERE)

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
    "Situation",
    "Suppressed",
    "Thresholds",
    "Trail",
    "Trigger",
    "Upload",
    "evaluate",
    "found",
    "repetition",
    "rulebook",
    "update",
]
