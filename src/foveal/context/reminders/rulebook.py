"""The rulebook: the built-in rules and those of a policy, compiled once and evaluated for each call.

Compiling finds the trigger and the text of each rule, and refuses unknown names.
"""

from collections.abc import Iterable, Mapping
from typing import TypeAlias

import msgspec

from foveal.context.reminders.catalogues import CATALOGUES
from foveal.context.reminders.rule import ReminderRule
from foveal.context.reminders.triggers import Trigger, TriggerCheck, find_trigger, known_triggers
from foveal.context.templates import Template, check_template, nearest_hint
from foveal.values.errors import BadPolicy

Catalogues: TypeAlias = Mapping[str, Mapping[str, str]]
"""Texts of rules by their ids, by language."""

DEFAULT_LANGUAGE = "en"


class Ready(msgspec.Struct, frozen=True):
    """A rule with its trigger and its compiled template."""

    rule: ReminderRule
    ask: TriggerCheck
    template: Template
    language: str
    """The language of the template: English, if the language of the session has no text for it."""


class Rulebook(msgspec.Struct, frozen=True):
    """Rules in the order in which they are shown, which is the order in which they are given room."""

    language: str
    rules: tuple[Ready, ...]


BUILT_IN: tuple[ReminderRule, ...] = (
    ReminderRule("last_step", "steps_left", at_most={"left": 1}),
    ReminderRule("steps_left", "steps_left", at_least={"left": 2}, at_most={"left": 5}),
    ReminderRule("pressure_critical", "pressure", equal={"level": "critical"}),
    ReminderRule("pressure_warning", "pressure", equal={"level": "warning"}, every=5),
    ReminderRule("pressure_info", "pressure", equal={"level": "info"}, every=10),
    ReminderRule("repeated_same", "repetition", equal={"circle": "same"}, at_least={"times": 3}),
    ReminderRule("repeated_alternating", "repetition", equal={"circle": "alternating"}, at_least={"times": 2}),
    ReminderRule("repeated_error", "repetition", equal={"circle": "error"}, at_least={"times": 3}),
    ReminderRule("new_instructions", "new_instructions"),
    ReminderRule("files_uploaded", "uploads"),
    ReminderRule("suggested_skills", "suggested_skills"),
    ReminderRule("mentioned_tools", "mentioned_tools"),
    ReminderRule("mentioned_skills", "mentioned_skills"),
    ReminderRule("mentioned_agents", "mentioned_agents"),
    ReminderRule("active_skill", "active_skill"),
    ReminderRule("todos_open", "todos", at_least={"open": 2}),
    ReminderRule("todo_last", "todos", equal={"open": 1}),
    ReminderRule("todos_done", "todos", equal={"open": 0}),
    ReminderRule("streak", "streak", at_least={"calls": 10}, every=10),
)


def rulebook(
    rules: Iterable[ReminderRule] = (),
    *,
    language: str = DEFAULT_LANGUAGE,
    catalogues: Catalogues | None = None,
    triggers: Iterable[Trigger] = (),
) -> Rulebook:
    """Return the built-in rules and these, compiled. `BadPolicy` names the key of any unknown name."""
    catalogues, known = catalogues or {}, known_triggers(triggers)
    merged, seen = {rule.id: rule for rule in BUILT_IN}, set[str]()
    for rule in rules:
        if rule.id in seen:
            raise BadPolicy(f"reminders.{rule.id} is there twice; ids are given once")
        seen.add(rule.id)
        merged[rule.id] = rule  # in the place of a built-in rule of this id, or after all others
    if language not in (languages := {*CATALOGUES, *catalogues}):
        raise BadPolicy(f"language: there is no catalogue {language!r}{nearest_hint(language, languages)}")
    _check_catalogues(catalogues, merged, known)
    spoken = [(rule, *_text(rule, catalogues, language)) for rule in merged.values() if not rule.off]
    return Rulebook(language, tuple(_ready(rule, known, text, spoken=tongue) for rule, text, tongue in spoken))


def _check_catalogues(catalogues: Catalogues, rules: Mapping[str, ReminderRule], known: Mapping[str, Trigger]) -> None:
    """Check every text of every language: a faulty catalogue is an error when it is read, not when it is needed."""
    for language, texts in catalogues.items():
        for name, text in texts.items():
            key = f"catalogues.{language}.{name}"
            if name not in rules:
                raise BadPolicy(f"{key}: there is no reminder {name!r}{nearest_hint(name, rules)}")
            if not rules[name].off:
                check_template(text, key, find_trigger(rules[name].trigger, known, f"reminders.{name}.trigger").fills)


def _ready(rule: ReminderRule, known: Mapping[str, Trigger], text: str, *, spoken: str) -> Ready:
    key = f"reminders.{rule.id}"
    trigger = find_trigger(rule.trigger, known, f"{key}.trigger")
    for field in ("at_least", "at_most", "equal"):
        for name in getattr(rule, field):
            if name not in trigger.fills:
                raise BadPolicy(f"{key}.{field}: {rule.trigger} gives no {name!r}{nearest_hint(name, trigger.fills)}")
    if not text.strip():
        raise BadPolicy(f"{key}: has no template, and no catalogue has a text for it; give it one")
    return Ready(rule, trigger.ask, check_template(text, f"{key}.template", trigger.fills), spoken)


def _text(rule: ReminderRule, catalogues: Catalogues, language: str) -> tuple[str, str]:
    """Return the rule's text and its language. The host translates its own texts."""
    if text := catalogues.get(language, {}).get(rule.id):
        return text, language
    if rule.template:
        # A text without translations is in the language of the session; a text with translations is in English.
        is_translated = any(rule.id in texts for texts in catalogues.values())
        return rule.template, DEFAULT_LANGUAGE if is_translated else language
    for spoken in (language, DEFAULT_LANGUAGE):
        if text := CATALOGUES.get(spoken, {}).get(rule.id):
            return text, spoken
    return "", DEFAULT_LANGUAGE
