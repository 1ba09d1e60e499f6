"""The tables behind `reads`: names of tools, names of their arguments, and access to the values.

Names are compared without case, dashes and underscores ("squeezed").
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeAlias, cast

from foveal.text.calls.access import AccessKind, is_whole
from foveal.text.repair import json_object
from foveal.values.entry import ToolCall

CallArguments: TypeAlias = Mapping[str, Any]

_TOOLS: dict[str, str] = {
    "read": "read readfile readtextfile readfiles fileread view viewfile viewcode open openfile openfiles catfile inspectcode "
    "expandcodechunks notebookread",
    "write": "write writefile writetofile filewrite createfile create newfile savefile overwritefile deletefile removefile",
    "edit": "edit editfile fileedit multiedit notebookedit strreplace replace replaceinfile searchreplace searchandreplace "
    "findandreplacecode insert insertline insertatline applydiff appendfile appendtofile updatefile patchfile",
    "move": "movefile renamefile move rename",
    "list": "ls listdir listdirectory listfiles glob findfile findfiles filesearch expandfolder",
    "search": "grep grepsearch searchfile searchfiles searchdir searchfilecontent searchtext ripgrep codebasesearch",
    "editor": "strreplaceeditor strreplacebasededittool texteditor editor memory",
    "shell": "bash shell execcommand runcommand runshellcommand executebash executecommand terminal runinterminal localshell "
    "shellcommand cmdrun run",
    "patch": "applypatch",
}
"""Names of tools in Claude Code, Codex, Pi, SWE-agent, OpenHands, Gemini CLI, Cursor, Cline, Rovo Dev, and common names of
users' tools."""

_KINDS = {name: kind for kind, names in _TOOLS.items() for name in names.split()}
_SERVER = re.compile(r"__|[.:/]")
EDITOR: dict[str, AccessKind] = {
    "view": "read",
    "create": "write",
    "strreplace": "edit",
    "insert": "edit",
    "undoedit": "edit",
    "delete": "write",
}
PATH = ("filepath", "path", "absolutepath", "targetfile", "filename", "file", "notebookpath", "relativepath")
_PATHS = ("filepaths", "paths", "files")
FOLDER = ("dirpath", "dir", "directory", "folder", "folderpath", "targetdirectory", "relativeworkspacepath", *PATH)
ENDS = ("source", "destination", "oldpath", "newpath", "sourcepath", "destinationpath", "from", "to")
COMMAND = ("command", "cmd", "commandline", "script", "input")
DIRECTORY = ("workdir", "cwd", "workingdirectory", "directory")
FIRST = ("startline", "startlineoneindexed", "linestart", "start")
LAST = ("endline", "endlineoneindexedinclusive", "lineend", "end")
_DEEPEST = 8
_FLAT_FIELD = re.compile(r"([A-Za-z_]\w{0,40}): ?(.*)\Z")
_FLAT_RANGE = re.compile(r"^- - (\d{1,9})\n  - (-?\d{1,9})$", re.MULTILINE)


def kind_of(call: ToolCall) -> str:
    """Return the kind of the tool. Servers put their own name before the tool's (`mcp__files__read_file`,
    `functions.shell`)."""
    return _KINDS.get(bare_name(call.name), "")


@lru_cache(maxsize=256)
def bare_name(tool: str) -> str:
    """Return a tool's name without its server, squeezed."""
    return squeeze(_SERVER.split(tool)[-1])


def squeeze(name: str) -> str:
    return name.replace("_", "").replace("-", "").lower()


def fields_of(call: ToolCall) -> CallArguments:
    """Return the arguments by their squeezed names; none if they are no object."""
    given = json_object(call.arguments) or {}
    text = given.get("input") if len(given) == 1 else None
    if isinstance(text, str) and _FLAT_FIELD.match(text.partition("\n")[0]):
        given = _flat(text)
    return {squeeze(key): value for key, value in given.items()}


def first_argument(fields: CallArguments, keys: Sequence[str]) -> Any:
    return next((fields[key] for key in keys if key in fields), None)


def number_argument(fields: CallArguments, *keys: str) -> int | None:
    value = first_argument(fields, keys)
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 10:
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def path_arguments(fields: CallArguments, keys: Sequence[str], most: int = 1) -> Iterator[str]:
    """Yield the first paths that are named, at most `most`, or all of a list of paths."""
    named = [value for key in keys if isinstance(value := fields.get(key), str) and value.strip()]
    several = first_argument(fields, _PATHS)
    items = cast("list[object]", several) if isinstance(several, list) else []
    yield from named[:most] or [item for item in items if isinstance(item, str)]


def number_pairs(value: object) -> Iterator[tuple[int, int]]:
    """Yield the pairs of numbers in a list; items of another shape are left out."""
    for item in cast("list[object]", value) if isinstance(value, list) else ():
        match item:
            case [int(first), int(last)]:
                yield first, last
            case _:
                pass


def strings_in(value: object, depth: int = 0) -> Iterator[str]:
    """Yield all strings of decoded JSON, down to `_DEEPEST` levels."""
    match value:
        case str():
            yield value
        case dict() | list() if depth < _DEEPEST:
            inner = cast("Iterable[object]", value.values() if isinstance(value, dict) else value)
            for item in inner:
                yield from strings_in(item, depth + 1)
        case _:
            pass


def _flat(text: str) -> dict[str, Any]:
    """Return arguments that were written as `key: value` lines, with plain values only."""
    fields: dict[str, Any] = {}
    key = ""
    for line in text.split("\n"):
        if found := _FLAT_FIELD.match(line):
            key, value = found.groups()
            fields[key] = value.strip("'")
            if value.startswith(('"', "|", ">", "&", "*", "{", "[")) or not is_whole(value):
                fields[key] = None
        elif line.startswith("- ") and key:
            before = fields[key]
            fields[key] = [*(cast("list[str]", before) if isinstance(before, list) else []), line[2:].strip("'")]
        elif line.startswith("  ") and isinstance(fields.get(key), str):
            fields[key] = f"{fields[key]} {line.strip()}"
    if ranges := _FLAT_RANGE.findall(text):
        fields["line_ranges"] = [[int(first), int(last)] for first, last in ranges]
    return fields
