"""The files that a call is about to touch, and those that its result confirms."""

import re
from collections.abc import Iterator
from typing import cast

from foveal.summary.ledger.items import FileChange, LedgerFile
from foveal.text.calls.access import Access, clean_path
from foveal.text.calls.coverage import END, lines_shown, succeeded
from foveal.text.calls.read_tools import COMMAND, CallArguments, bare_name, kind_of
from foveal.text.calls.reads import accesses
from foveal.text.calls.shell_words import pipelines
from foveal.values.entry import ToolCall, ToolResult

_DELETED = re.compile(r"^\*\*\* Delete File: (.+?)\s*$", re.MULTILINE)
_REMOVES = frozenset(("deletefile", "removefile", "delete", "remove"))
_CHANGES: dict[str, FileChange] = {"write": "written", "edit": "edited"}
_NAMES_A_FILE = re.compile(r"[^/]*\.\w{1,10}\Z")
_COMMAND_CHARS = 2_000


def command_of(call: ToolCall, fields: CallArguments) -> str:
    """Return the shell command of a call to any shell tool; empty if the call is none."""
    if kind_of(call) in ("editor", "edit", "write", "read", "patch", "search", "list"):
        return ""
    keys = COMMAND if kind_of(call) == "shell" else ("command", "cmd")
    given = next((fields[key] for key in keys if key in fields), None)
    if isinstance(given, list):
        words = [word for word in cast("list[object]", given) if isinstance(word, str)]
        given = words[2] if len(words) == 3 and words[1] in ("-c", "-lc") else " ".join(words)
    return given[:_COMMAND_CHARS] if isinstance(given, str) else ""


def touched_files(call: ToolCall, command: str) -> tuple[LedgerFile, ...]:
    """Return the files that a call reads or changes if it succeeds. Listings touch none."""
    gone = frozenset(_deleted(call, command))
    found = dict[str, LedgerFile]()
    for access in accesses(call):
        path, change = access.path, _CHANGES.get(access.kind, "")
        if change:
            found[path] = LedgerFile(path=path, change="deleted" if path in gone else change)
        elif access.kind == "read":
            before = found[path].spans if path in found else ()
            found[path] = LedgerFile(path=path, spans=(*before, (access.first or 1, access.last or END)))
        elif access.kind == "search" and _NAMES_A_FILE.search(path):
            found.setdefault(path, LedgerFile(path=path))
    return tuple(found.values())


def confirmed_files(files: tuple[LedgerFile, ...], result: ToolResult) -> tuple[LedgerFile, ...]:
    """Return the files that the result confirms: none if the call failed, and the lines that were shown if the result tells."""
    if not files:
        return ()
    first, *rest = files
    span = first.spans[0] if len(first.spans) == 1 else None
    asked = Access(first.path, "read", *span) if span and not first.change else Access(first.path, "edit")
    if not succeeded(result, asked):
        return ()
    if rest or first.change or span is None:
        return files
    came = lines_shown(result, asked._replace(last=None if span[1] == END else span[1]))
    return (LedgerFile(path=first.path, spans=(came or span,)),)


def _deleted(call: ToolCall, command: str) -> Iterator[str]:
    if bare_name(call.name) in _REMOVES or (kind_of(call) == "editor" and '"delete"' in call.arguments):
        yield from (access.path for access in accesses(call))
    if "Delete File" in call.arguments:
        for found in _DELETED.findall(call.arguments.replace("\\n", "\n")):
            yield clean_path(found) or found
    if "rm " in command:
        for pipeline in pipelines(command) or ():
            removed = pipeline[0].operands() if pipeline[0].program == "rm" else ()
            yield from (path for word in removed if word.plain and (path := clean_path(word.text)))
