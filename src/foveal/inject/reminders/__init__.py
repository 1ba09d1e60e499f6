"""Reminders: short texts for one call, after the last message, never part of the conversation. Pure."""

from foveal.inject.reminders.evaluate import MOST_TOKENS, Reminded, Reminder, Suppressed, Wrap, evaluate, remembering
from foveal.inject.reminders.repetition import FRESH, Repeated, Trail, found, repetition, update
from foveal.inject.reminders.rules import BUILT_IN, Catalogues, Rule, Rulebook, rulebook
from foveal.inject.reminders.situation import OneShot, Situation, Thresholds, Upload
from foveal.inject.reminders.triggers import Trigger

__all__ = [
    "BUILT_IN",
    "FRESH",
    "MOST_TOKENS",
    "Catalogues",
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
    "Wrap",
    "evaluate",
    "found",
    "remembering",
    "repetition",
    "rulebook",
    "update",
]
