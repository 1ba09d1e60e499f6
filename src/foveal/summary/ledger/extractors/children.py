"""Extractor of sub-agents and background tasks that still run: a forgotten one is started again."""

import re
from collections.abc import Iterator
from typing import cast

from foveal.summary.ledger.events import CallBegan, CallEnded, LedgerEvent, SpokenWords, TaskFinished
from foveal.summary.ledger.items import Child
from foveal.text.calls.read_tools import CallArguments

_START_NAMES = """
    task agent spawnagent delegatetask delegate subagent callagent launchagent dispatchagent runsubagent runagent newtask
    spawntask starttask"""
_WATCH_NAMES = """
    taskoutput agentoutput waitagent closeagent taskstop stoptask wait getagent agentstatus killshell killagent"""
_STARTS, _WATCHES = frozenset(_START_NAMES.split()), frozenset(_WATCH_NAMES.split())
_TEXT = ("description", "title", "name", "message", "prompt", "task", "input")
_LAUNCHED = re.compile(r"(?:agent_?id|task_?id|thread_?id)[\"':= ]{1,4}([\w-]{3,64})", re.IGNORECASE)
_NAMED = re.compile(r"(?:<task-id>|\"agent_(?:id|path)\": ?\")([\w/-]{3,64})")
_OVER = re.compile(
    r"<status>(?:completed|failed|killed|stopped)|\"(?:completed|errored|failed|shutdown|closed)\"|retrieval_status>success"
)
_TARGETS = ("taskid", "agentid", "target", "targets", "id", "ids", "agentids")
_TEXT_CHARS, _LOOKED_CHARS = 160, 4_000


def children(event: LedgerEvent) -> Iterator[Child | TaskFinished]:
    match event:
        case CallBegan(id=name, tool=tool, fields=fields) if tool in _STARTS:
            yield Child(id=name, text=_title(tool, fields))
        case CallEnded(id=name, tool=tool, fields=fields, text=text) if tool in _STARTS:
            launched = _LAUNCHED.search(text, 0, 600)
            yield TaskFinished(name)
            if launched:
                yield Child(id=launched[1], text=_title(tool, fields))
        case CallEnded(tool=tool, fields=fields, text=text) if tool in _WATCHES and _OVER.search(
            text, 0, _LOOKED_CHARS
        ):
            for given in (cast("object", fields[key]) for key in _TARGETS if fields.get(key)):
                # Of several awaited tasks, only those are over that the answer names.
                several = cast("list[object]", given) if isinstance(given, list) else [str(given)]
                yield from (
                    TaskFinished(str(one)) for one in several if not isinstance(given, list) or str(one) in text
                )
        case SpokenWords(role="user", text=text) if "<" in text[:40] and _OVER.search(text, 0, _LOOKED_CHARS):
            yield from (TaskFinished(found) for found in _NAMED.findall(text, 0, _LOOKED_CHARS))
        case _:
            pass


def _title(tool: str, fields: CallArguments) -> str:
    text = next((value for key in _TEXT if isinstance(value := fields.get(key), str) and value.strip()), tool)
    return " ".join(text[: _TEXT_CHARS * 2].split())[:_TEXT_CHARS]
