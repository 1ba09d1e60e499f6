"""Offered tools: operations of a script as calls of whatever a request offers, found by name and schema.

Claude Code, Codex, pi, opencode and Gemini CLI name the same four things differently; their names are tables here. Where a client
has no tool for reading or editing, its shell does it.
"""

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from posixpath import join
from typing import Any, cast

from foveal.dialects.json_values import elements, fields
from foveal.testing.provider.replies import Call
from foveal.testing.provider.script import Delegate, Edit, Operation, Own, RawCall, Read, Shell
from foveal.values.errors import BadInput
from foveal.values.own_tools import RECALL_TOOL

_READERS = ("read", "read_file", "view")
_SHELLS = ("bash", "exec_command", "run_shell_command", "shell_command", "shell")
_EDITORS = ("edit", "replace", "str_replace", "edit_file")
_PATCHERS = ("apply_patch", "patch")
_AGENTS = {"Agent": "general-purpose", "Task": "general-purpose", "task": "general", "invoke_agent": "generalist"}
"""Tools that start sub-agents, with the kind of agent that each client has for any task; Codex has no kinds."""
_TASKS = ("prompt", "message")
_KINDS = ("subagent_type", "agent_name")
_PATHS = ("file_path", "filePath", "absolute_path", "path", "filename")
_OLD = ("old_string", "oldString", "oldText", "old_text", "old")
_NEW = ("new_string", "newString", "newText", "new_text", "new")
_COMMANDS = ("command", "cmd")
_FOLDERS = ("workdir", "dir_path", "cwd")
_PATCHES = ("patchText", "patch", "input")
_SCHEMAS = ("parameters", "input_schema", "parametersJsonSchema", "parameters_json_schema")
_REFERENCE = re.compile(rb"\bref ([\w-]{6,}(?:\.\.[\w-]{6,})?)")
_SAMPLES: dict[str, Any] = {
    "string": "README.md",
    "integer": 1,
    "number": 1.0,
    "boolean": True,
    "array": [],
    "object": {},
}


@dataclass(frozen=True)
class OfferedTool:
    """A tool of a request."""

    name: str
    schema: Mapping[str, Any]
    is_text: bool = False
    """Whether it takes a text in place of JSON."""
    namespace: str = ""

    @property
    def properties(self) -> Mapping[str, Any]:
        """The parameters by name."""
        return fields(self.schema.get("properties"))

    def names(self, known: Iterable[str]) -> list[str]:
        """Return the parameters among these names."""
        return [name for name in known if name in self.properties]

    def call(self, id: str, arguments: Mapping[str, Any]) -> Call:  # noqa: A002 - the wire's word
        """Return a call with these arguments, and samples for the required ones that are missing."""
        missing = {name: one for name, one in sample_arguments(self.schema).items() if name not in arguments}
        required: Iterable[str] = self.schema.get("required") or ()
        filled = {name: _words(name, missing[name]) for name in required if name in missing}
        return Call(id, self.name, {**arguments, **filled}, namespace=self.namespace)


def offered_tools(body: Mapping[str, Any]) -> dict[str, OfferedTool]:
    """Return the tools of a request body in any of the four formats, by their names in lower case."""
    items: object = body.get("input")
    extra = [one.get("tools") for one in _objects(items) if one.get("type") == "additional_tools"]
    listed = [body.get("tools"), *extra]
    return {tool.name.lower(): tool for tools in listed for one in _objects(tools) for tool in _offered(one)}


def forbids_calls(body: Mapping[str, Any]) -> bool:
    """Return whether a request body in any of the four formats forbids to call the tools that it offers."""
    choice = body.get("tool_choice")
    config = fields(body.get("toolConfig") or body.get("tool_config"))
    calling = fields(config.get("functionCallingConfig") or config.get("function_calling_config"))
    return "none" in (choice, fields(choice).get("type")) or calling.get("mode") == "NONE"


def _offered(tool: Mapping[str, Any]) -> Iterator[OfferedTool]:
    for key in ("functionDeclarations", "function_declarations"):
        for declared in _objects(tool.get(key)):
            yield from _offered(declared)
    inner = tool.get("function") or tool.get("custom")
    if isinstance(inner, dict):
        yield from _offered({"type": tool.get("type"), **cast("dict[str, Any]", inner)})
    elif tool.get("type") == "namespace":
        for one in _objects(tool.get("tools")):
            for offered in _offered(one):
                yield OfferedTool(offered.name, offered.schema, offered.is_text, str(tool.get("name")))
    elif "name" in tool:
        schema = fields(next((tool[key] for key in _SCHEMAS if tool.get(key)), None))
        is_text = tool.get("type") == "custom" and not schema
        yield OfferedTool(str(tool["name"]), schema, is_text)


def _objects(value: object) -> Iterator[Mapping[str, Any]]:
    for one in cast("list[object]", value) if isinstance(value, list) else ():
        if isinstance(one, dict):
            yield cast("dict[str, Any]", one)


def sample_arguments(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments of the right types for the required properties, or for all where none is required."""
    properties: Mapping[str, Mapping[str, Any]] = schema.get("properties") or {}
    wanted: Iterable[str] = schema.get("required") or list(properties)
    return {name: _sample(field) for name, field in properties.items() if name in wanted}


def _sample(field: Mapping[str, Any]) -> Any:
    if field.get("enum"):
        return field["enum"][0]
    kind: Any = field.get("type") or next((one.get("type") for one in field.get("anyOf") or ()), "")
    first = str(next(iter(elements(kind)), kind)).lower()
    return sample_arguments(field) if first == "object" else _SAMPLES.get(first, "")


def _words(name: str, value: Any) -> Any:
    """Return a value that reads well where a client shows it to its user."""
    return f"scripted {name}" if isinstance(value, str) and name in ("description", "instruction") else value


def find_call(operation: Operation, tools: Mapping[str, OfferedTool], id: str, *, cwd: str, raw: bytes) -> Call:  # noqa: A002 - the wire's word
    """Return the call that does the operation. Raise `BadInput` where no offered tool can.

    Paths are put behind `cwd`, and `raw` is the request, in which references are looked for.
    """
    match operation:
        case RawCall(tool, arguments, namespace):
            return Call(id, tool, arguments if isinstance(arguments, str) else dict(arguments), namespace=namespace)
        case Own(tool, arguments):
            return _own(operation, tools, id, raw) or find_call(Shell("true"), tools, id, cwd=cwd, raw=raw)
        case Read(path):
            tool = _first(tools, _READERS)
            if tool and (names := tool.names(_PATHS)):
                return tool.call(id, {names[0]: join(cwd, path)})
            return find_call(Shell(f"cat {shlex.quote(path)}"), tools, id, cwd=cwd, raw=raw)
        case Edit(path, old, new):
            return _edit(operation, tools, id, cwd) or find_call(
                _edit_by_shell(path, old, new), tools, id, cwd=cwd, raw=raw
            )
        case Delegate(task):
            tool = _first(tools, (*map(str.lower, _AGENTS), "spawn_agent"))
            if tool is None:
                raise BadInput(f"the script delegates {task!r:.60}, but no tool starts an agent: {', '.join(tools)}")
            return _delegate(tool, task, id)
        case Shell(command):
            tool = _first(tools, _SHELLS)
            if tool is None:
                raise BadInput(f"the script runs {command!r:.60}, but no shell is among the tools: {', '.join(tools)}")
            return _shell(tool, command, id, cwd)


def _first(tools: Mapping[str, OfferedTool], names: Iterable[str]) -> OfferedTool | None:
    return next((tools[name] for name in names if name in tools), None)


def _shell(tool: OfferedTool, command: str, id: str, cwd: str) -> Call:  # noqa: A002 - the wire's word
    key = (tool.names(_COMMANDS) or ["command"])[0]
    is_list = str(fields(tool.properties.get(key)).get("type")).lower() == "array"
    places = {name: cwd for name in tool.names(_FOLDERS)[:1] if cwd}
    return tool.call(id, {key: ["bash", "-lc", command] if is_list else command, **places})


def _delegate(tool: OfferedTool, task: str, id: str) -> Call:  # noqa: A002 - the wire's word
    kinds = {name: _AGENTS.get(tool.name, "") for name in tool.names(_KINDS)}
    waits = dict.fromkeys(tool.names(("run_in_background",)), False)
    return tool.call(id, {(tool.names(_TASKS) or ["prompt"])[0]: task, **kinds, **waits})


def _own(operation: Own, tools: Mapping[str, OfferedTool], id: str, raw: bytes) -> Call | None:  # noqa: A002 - the wire's word
    tool = tools.get(operation.tool)
    if tool is None:
        return None
    arguments = dict(operation.arguments)
    if operation.tool == RECALL_TOOL and "ref" not in arguments:
        shown = _REFERENCE.findall(raw)
        arguments["ref"] = shown[-1].decode() if shown else "nothing"
    return tool.call(id, arguments)


def _edit(edit: Edit, tools: Mapping[str, OfferedTool], id: str, cwd: str) -> Call | None:  # noqa: A002 - the wire's word
    tool = _first(tools, _EDITORS)
    if tool and (paths := tool.names(_PATHS)):
        path = {paths[0]: join(cwd, edit.path)}
        if "edits" in tool.properties:
            inner = OfferedTool("", fields(fields(tool.properties["edits"]).get("items")))
            old, new = inner.names(_OLD) or ["oldText"], inner.names(_NEW) or ["newText"]
            return tool.call(id, {**path, "edits": [{old[0]: edit.old, new[0]: edit.new}]})
        old, new = tool.names(_OLD), tool.names(_NEW)
        if old and new:
            return tool.call(id, {**path, old[0]: edit.old, new[0]: edit.new})
    tool = _first(tools, _PATCHERS)
    if tool is None:
        return None
    lines = [f"-{line}" for line in edit.old.split("\n")] + [f"+{line}" for line in edit.new.split("\n")]
    patch = "\n".join(("*** Begin Patch", f"*** Update File: {edit.path}", "@@", *lines, "*** End Patch"))
    if tool.is_text:
        return Call(id, tool.name, patch, namespace=tool.namespace)
    return tool.call(id, {(tool.names(_PATCHES) or ["input"])[0]: patch})


def _edit_by_shell(path: str, old: str, new: str) -> Shell:
    program = f"import pathlib; p = pathlib.Path({path!r}); p.write_text(p.read_text().replace({old!r}, {new!r}, 1))"
    return Shell(f"python3 -c {shlex.quote(program)}")
