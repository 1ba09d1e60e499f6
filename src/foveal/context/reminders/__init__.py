"""Reminders: short texts for one call, after the last message, never part of the conversation. Pure.

    ReminderRule ──► Rulebook ──► evaluate(rulebook, situation) ──► Reminded

A rule is data of a policy. A rulebook is the built-in rules and those of the policy, compiled. `SessionReminders` follows one
session and evaluates its rulebook for each call.
"""

from typing import TYPE_CHECKING

from foveal.context.reminders.rule import ReminderRule
from foveal.values.lazy import later

if TYPE_CHECKING:
    from foveal.context.reminders.session_reminders import SessionReminders, one_shot
    from foveal.context.reminders.triggers import Trigger

# A session without reminders needs the rules of its policy and nothing else of this package.
__getattr__ = later(
    __name__, {"SessionReminders": "session_reminders", "one_shot": "session_reminders", "Trigger": "triggers"}
)

__all__ = ["ReminderRule", "SessionReminders", "Trigger", "one_shot"]
