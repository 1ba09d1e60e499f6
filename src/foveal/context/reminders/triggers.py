"""Triggers of reminder rules. A trigger maps a situation to the values of a template, or to None if it does not hold.

A trigger declares the names of its values, so that a template with other names is refused when it is read. A host registers its
own triggers beside these; rules refer to them by name, so that rules stay data.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

import msgspec

from foveal.context.reminders.situation import CLOSED, Situation, Upload
from foveal.context.templates import Value, is_name, join_names, nearest_hint
from foveal.text.display import one_line
from foveal.values.errors import BadPolicy

TriggerCheck: TypeAlias = Callable[[Situation], Mapping[str, Value] | None]

FACT = "fact:"

UPLOAD_CHARS = 400
"""A file's name, its kind and size, and the path that it is read by."""


class Trigger(msgspec.Struct, frozen=True):
    """A named question, and the names of the values in its answer."""

    name: str
    fills: frozenset[str]
    ask: TriggerCheck


def _always(now: Situation) -> Mapping[str, Value]:
    return {"call": now.call, "turn": now.turn}


def _steps_left(now: Situation) -> Mapping[str, Value] | None:
    return None if now.steps_left is None else {"left": max(0, now.steps_left)}


def _pressure(now: Situation) -> Mapping[str, Value] | None:
    if now.pressure is None or not now.limit_tokens:
        return None
    used, limit = now.used_tokens, now.limit_tokens
    return {
        "level": now.pressure,
        "used": used,
        "limit": limit,
        "left": max(0, limit - used),
        "percent": used * 100 // limit,
    }


def _repetition(now: Situation) -> Mapping[str, Value] | None:
    again = now.repeated
    return again and {"circle": again.circle, "times": again.times, "tool": one_line(again.tool)}


def _streak(now: Situation) -> Mapping[str, Value] | None:
    return {"calls": now.streak} if now.streak else None


def _todos(now: Situation) -> Mapping[str, Value] | None:
    if not now.todos:
        return None
    left = [todo for todo in now.todos if todo.status not in CLOSED]
    left.sort(key=lambda todo: todo.status != "in_progress")  # stable: todos in progress first, the rest as listed
    current, then = [*(one_line(todo.text) for todo in left[:2]), "", ""][:2]
    return {"open": len(left), "done": len(now.todos) - len(left), "current": current, "next": then}


def _uploads(now: Situation) -> Mapping[str, Value] | None:
    files = join_names(map(_described, now.uploads), UPLOAD_CHARS)
    return {"count": len(now.uploads), "files": files} if now.uploads else None


def _active_skill(now: Situation) -> Mapping[str, Value] | None:
    return {"skill": one_line(now.active_skill)} if now.active_skill else None


def _names(field: str) -> Trigger:
    def ask(now: Situation) -> Mapping[str, Value] | None:
        names: tuple[str, ...] = getattr(now, field)
        return {"names": join_names(dict.fromkeys(names)), "count": len(names)} if names else None

    return Trigger(field, frozenset(("names", "count")), ask)


def _fact(name: str) -> Trigger:
    def ask(now: Situation) -> Mapping[str, Value] | None:
        value = now.facts.get(name)
        return None if value is None else {name: value}

    return Trigger(FACT + name, frozenset((name,)), ask)


def _described(upload: Upload) -> str:
    size = "" if upload.size_bytes is None else _size(upload.size_bytes)
    about = ", ".join(filter(None, (one_line(upload.kind), size)))
    where = f" → {one_line(upload.where)}" if upload.where else ""
    return f"{one_line(upload.name)}{f' ({about})' if about else ''}{where}"


def _size(size_bytes: int) -> str:
    for unit, scale in (("MB", 1_000_000), ("KB", 1_000)):
        if size_bytes >= scale:
            return f"{size_bytes / scale:.1f} {unit}"
    return f"{size_bytes} B"


BUILT_IN: dict[str, Trigger] = {
    trigger.name: trigger
    for trigger in (
        Trigger("always", frozenset(("call", "turn")), _always),
        Trigger("steps_left", frozenset(("left",)), _steps_left),
        Trigger("pressure", frozenset(("level", "used", "limit", "left", "percent")), _pressure),
        Trigger("repetition", frozenset(("circle", "times", "tool")), _repetition),
        Trigger("streak", frozenset(("calls",)), _streak),
        Trigger("todos", frozenset(("open", "done", "current", "next")), _todos),
        Trigger("uploads", frozenset(("count", "files")), _uploads),
        Trigger("active_skill", frozenset(("skill",)), _active_skill),
        *map(
            _names, ("mentioned_tools", "mentioned_skills", "mentioned_agents", "suggested_skills", "new_instructions")
        ),
    )
}


def known_triggers(host: Iterable[Trigger]) -> dict[str, Trigger]:
    """Return the built-in triggers and the host's own."""
    known = dict(BUILT_IN)
    for trigger in host:
        if trigger.name.startswith(FACT) or known.setdefault(trigger.name, trigger) is not trigger:
            raise BadPolicy(f"the trigger {trigger.name!r} is there already; give yours another name")
    return known


def find_trigger(name: str, known: Mapping[str, Trigger], key: str) -> Trigger:
    """Return the trigger of this name; `key` names its place in the policy for errors."""
    if name in known:
        return known[name]
    if name.startswith(FACT) and is_name(fact := name.removeprefix(FACT)):
        return _fact(fact)
    raise BadPolicy(f"{key}: there is no trigger {name!r}{nearest_hint(name, (*known, FACT + 'NAME'))}")
