"""The files that a tool call reads, writes, lists or searches, for the tools of every common harness.

An unclear call counts as no access: staleness is never guessed. The tables are in `read_tools`, shell commands in
`shell_reads`.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import cast

from foveal.text.calls import read_tools as tools
from foveal.text.calls.access import Access, clean_path, is_absolute, line_access
from foveal.text.calls.read_tools import CallArguments
from foveal.text.calls.shell_reads import FileAccesses, patch_accesses, shell_accesses
from foveal.values.entry import ToolCall

_SHORT_CHARS = 4_000
"""Longer arguments are read each time, so that the cache takes a megabyte or two at most."""

_SHELLS = frozenset(("bash", "sh", "zsh", "/bin/bash", "/bin/sh", "/bin/zsh", "/usr/bin/bash"))


def accesses(call: ToolCall) -> tuple[Access, ...]:
    """Return the files that a call touches; none if that is unclear."""
    return _understood(call).accesses


def locate_accesses(calls: Sequence[ToolCall]) -> list[tuple[Access, ...]]:
    """Return the accesses of all calls of a session, with relative paths made absolute where that is certain.

    It is certain if all calls that name a directory name the same one. If they name several, a relative path in a shell
    command may be below any of them and is left out; other tools count from the root of the workspace, wherever that is.
    """
    understood = [_understood(call) for call in calls]
    directories = {directory for one in understood for directory in one.directories}
    only = next(iter(directories)) if len(directories) == 1 else None
    found: list[tuple[Access, ...]] = []
    for call, one in zip(calls, understood, strict=True):
        is_lost = len(directories) > 1 and is_shell(call) and any(not is_absolute(a.path) for a in one.accesses)
        if is_lost:
            found.append(tuple(a for a in one.accesses if is_absolute(a.path) and a.kind in ("write", "edit")))
        else:
            found.append(tuple(a._replace(path=clean_path(a.path, only) or a.path) for a in one.accesses))
    return found


def is_shell(call: ToolCall) -> bool:
    return tools.kind_of(call) == "shell"


def _understood(call: ToolCall) -> FileAccesses:
    """Return the accesses of a call, from a cache if its arguments are short. A call is read by several stages, at every
    fold."""
    is_short = len(call.arguments) <= _SHORT_CHARS
    return _remembered(call.name, call.arguments) if is_short else _read(call)


@lru_cache(maxsize=4_096)
def _remembered(name: str, arguments: str) -> FileAccesses:
    return _read(ToolCall("", name, arguments))


def _read(call: ToolCall) -> FileAccesses:
    kind = tools.kind_of(call)
    if kind == "shell":
        return _shell(tools.fields_of(call))
    found = [(clean_path(access.path), access) for access in _by_kind(kind, tools.fields_of(call))] if kind else []
    return FileAccesses(tuple(dict.fromkeys(access._replace(path=path) for path, access in found if path)))


def _shell(fields: CallArguments) -> FileAccesses:
    command, directory = tools.first_argument(fields, tools.COMMAND), tools.first_argument(fields, tools.DIRECTORY)
    if isinstance(command, list):
        words = cast("list[object]", command)
        command = words[2] if len(words) == 3 and words[0] in _SHELLS and words[1] in ("-c", "-lc") else None
    at = clean_path(directory) if isinstance(directory, str) else None
    if not isinstance(command, str):
        return FileAccesses()
    found = shell_accesses(command, at)
    return FileAccesses(found.accesses, found.directories or ((at,) if at and is_absolute(at) else ()))


def _by_kind(kind: str, fields: CallArguments) -> Iterator[Access]:
    match kind:
        case "patch":
            text = tools.first_argument(fields, ("input", "patch", "patchtext", "diff"))
            yield from patch_accesses(text) if isinstance(text, str) else ()
        case "editor":
            yield from _by_kind(tools.EDITOR.get(tools.squeeze(str(fields.get("command"))), ""), fields)
        case "read":
            for path in tools.path_arguments(fields, tools.PATH):
                yield from _ranges(path, fields)
        case "move":
            yield from (Access(path, "write") for path in tools.path_arguments(fields, tools.ENDS, most=2))
        case "write" | "edit":
            yield from (Access(path, kind) for path in tools.path_arguments(fields, tools.PATH))
        case "list" | "search":
            yield Access(next(tools.path_arguments(fields, tools.FOLDER), "."), kind)
        case _:
            pass


def _ranges(path: str, fields: CallArguments) -> Iterator[Access]:
    """Yield the lines that a reading tool is asked for, in any of the ways in which tools take them."""
    first, last = tools.number_argument(fields, *tools.FIRST), tools.number_argument(fields, *tools.LAST)
    offset, limit = tools.number_argument(fields, "offset"), tools.number_argument(fields, "limit")
    if "patterns" in fields or "pattern" in fields or (offset or 0) < 0 or (limit is not None and limit <= 0):
        yield Access(path, "search")
    elif "lineranges" in fields:  # counted from 0; -1 is the last line
        yield from (
            Access(path, "read", a + 1, b + 1 if b >= 0 else None) for a, b in tools.number_pairs(fields["lineranges"])
        )
    elif fields.get("viewrange") is not None:
        yield from (
            Access(path, "read", max(1, a), b if b > 0 else None) for a, b in tools.number_pairs([fields["viewrange"]])
        )
    elif first is not None and fields.get("shouldreadentirefile") is not True:
        yield Access(path, "read", max(1, first), last if last is not None and last > 0 else None)
    elif offset is not None and "absolutepath" in fields:  # Gemini CLI counts lines from 0
        yield line_access(path, offset + 1, limit)
    else:
        yield line_access(path, offset, limit)
