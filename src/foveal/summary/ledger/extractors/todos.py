"""Extractor of todo lists and plans: the newest list is kept, exactly as the model wrote it."""

import re
from collections.abc import Iterator
from typing import Any, cast

from foveal.summary.ledger.events import CallBegan, CallEnded, LedgerEvent, TodoChange, TodoList
from foveal.summary.ledger.items import LedgerPlan, Todo

_WRITE_NAMES = """
    todowrite writetodos todo todos updatetodos settodos managetodolist updatetodolist todolist updateplan setplan createplan
    writeplan taskprogress"""
_WRITES = frozenset(_WRITE_NAMES.split())
_CREATES = frozenset(("taskcreate", "createtask", "addtask", "addtodo"))
_UPDATES = frozenset(("taskupdate", "updatetask", "updatetodo"))
_LISTS = frozenset(("tasklist", "listtasks"))
_PLANS = frozenset(("exitplanmode", "presentplan", "submitplan"))
_LIST = ("todos", "plan", "items", "tasks", "todolist", "steps", "list", "input")
_TEXT = ("content", "step", "subject", "text", "title", "task", "description", "name")
_STATUS = ("status", "state")
_ID = ("id", "taskid", "task_id", "taskId")
_BOX = re.compile(r"^[ \t]*(?:[-*]|\d{1,3}[.)]) \[(?P<mark>[ xX~-])\] (?P<text>.+)$", re.MULTILINE)
_LISTED = re.compile(r"^#(?P<id>\d{1,6})[. ]{1,2}\[(?P<status>\w{1,20})\] (?P<text>.+)$", re.MULTILINE)
_CREATED = re.compile(r"#(\d{1,6})\b|\bid\"?: ?\"?([\w-]{1,64})")
_BOXES = {" ": "pending", "x": "completed", "X": "completed", "~": "in_progress", "-": "in_progress"}
_PLAN_CHARS = 1_200


def todos(event: LedgerEvent) -> Iterator[TodoList | TodoChange | LedgerPlan]:
    """Yield lists as the call begins: the arguments are whole then, and a list has nothing to wait for."""
    match event:
        case CallBegan(tool=tool, fields=fields) if tool in _WRITES:
            if items := _items(next((fields[key] for key in _LIST if key in fields), None)):
                yield TodoList(items)
        case CallBegan(tool=tool, fields=fields) if tool in _PLANS and isinstance(text := fields.get("plan"), str):
            yield LedgerPlan(text=text[:_PLAN_CHARS], whole=len(text) <= _PLAN_CHARS)
        case CallEnded(tool=tool, fields=fields, text=text, status="ok") if tool in _CREATES:
            if named := _CREATED.search(text, 0, 200):
                yield TodoChange(named[1] or named[2], _first(fields, _TEXT[2:] + _TEXT[:2]), "pending")
        case CallEnded(tool=tool, fields=fields, status="ok") if tool in _UPDATES:
            if name := _first(fields, _ID):
                yield TodoChange(name, _first(fields, ("subject", "content", "text")), _first(fields, _STATUS))
        case CallEnded(tool=tool, text=text, status="ok") if tool in _LISTS:
            found = [Todo(one["text"].strip(), one["status"], one["id"]) for one in _LISTED.finditer(text)]
            if found:
                yield TodoList(tuple(found))
        case _:
            pass


def _items(given: object) -> tuple[Todo, ...]:
    if isinstance(given, str):
        return tuple(Todo(one["text"].strip(), _BOXES[one["mark"]]) for one in _BOX.finditer(given))
    return tuple(filter(None, map(_item, cast("list[object]", given)))) if isinstance(given, list) else ()


def _item(given: object) -> Todo | None:
    if isinstance(given, str):
        return Todo(given)
    if not isinstance(given, dict):
        return None
    fields = cast("dict[str, Any]", given)
    done = any(fields.get(key) is True for key in ("done", "completed", "checked"))
    text, status = _first(fields, _TEXT), _first(fields, _STATUS) or ("completed" if done else "pending")
    return Todo(text, status, _first(fields, _ID)) if text else None


def _first(fields: Any, keys: tuple[str, ...]) -> str:
    """Return the first of these fields that has a value, as text."""
    values = (fields.get(key) for key in keys)
    return next(
        (str(one) for one in values if isinstance(one, str | int) and not isinstance(one, bool) and one != ""), ""
    )
