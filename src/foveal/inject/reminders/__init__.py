"""Reminders: short texts for one call, after the last message, never part of the conversation. Pure."""

from typing import TYPE_CHECKING

from foveal.core.later import later

if TYPE_CHECKING:
    from foveal.inject.reminders.circles import FRESH, Repeated, Trail, found, repetition, update
    from foveal.inject.reminders.evaluating import (
        MOST_TOKENS,
        Frame,
        Reminded,
        Reminder,
        Suppressed,
        evaluate,
    )
    from foveal.inject.reminders.rules import BUILT_IN, Catalogues, Rule, Rulebook, rulebook
    from foveal.inject.reminders.situation import OneShot, Situation, Thresholds, Upload
    from foveal.inject.reminders.triggers import Trigger

_WHERE = {
    "BUILT_IN": "rules",
    "Catalogues": "rules",
    "FRESH": "circles",
    "Frame": "evaluating",
    "MOST_TOKENS": "evaluating",
    "OneShot": "situation",
    "Reminded": "evaluating",
    "Reminder": "evaluating",
    "Repeated": "circles",
    "Rule": "rule",
    "Rulebook": "rules",
    "Situation": "situation",
    "Suppressed": "evaluating",
    "Thresholds": "rule",
    "Trail": "circles",
    "Trigger": "triggers",
    "Upload": "situation",
    "evaluate": "evaluating",
    "found": "circles",
    "repetition": "circles",
    "rulebook": "rules",
    "update": "circles",
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
    "Repeated",
    "Rule",
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
