"""Actions of a model, and when two replies agree.

An action is a tool call. Two replies agree in one of three ways, each of which holds the one before it:

- **tool**: they call the same tools;
- **target**: each call is also about the same thing: the files that it names, the program of its command, else the first text
  among its arguments;
- **arguments**: all arguments are equal.

The order of calls in a reply does not count. Replies without calls agree in tool and target, and in arguments if their words are
the same.
"""

import re
from collections import Counter
from collections.abc import Hashable, Iterable
from itertools import chain
from typing import Literal, TypeAlias, cast

import msgspec

from foveal.text.calls.access import clean_path
from foveal.text.calls.read_tools import COMMAND, PATH, fields_of, first_argument, path_arguments, strings_in
from foveal.text.calls.reads import accesses, is_shell
from foveal.text.calls.shell_words import pipelines
from foveal.text.repair import json_object
from foveal.values.entry import ToolCall

Likeness: TypeAlias = Literal["tool", "target", "arguments"]
LIKENESSES: tuple[Likeness, ...] = ("tool", "target", "arguments")

_PREPARES = frozenset(("cd", "pushd", "export", "set", "source", "."))
"""Programs that only prepare the next command."""
_RUNS_ANOTHER = frozenset(("sudo", "env", "time", "timeout", "nohup", "command", "exec"))
"""Programs whose arguments are a command."""
_IS_NO_PROGRAM = re.compile(r"-|\d|[A-Za-z_]\w*=")
"""Options, numbers and assignments before a program's name."""
_TARGET_CHARS = 200


class Action(msgspec.Struct, frozen=True):
    """One tool call, as far as it is compared."""

    tool: str
    target: str
    arguments: str
    """As JSON with sorted keys; as they came where they are no JSON object."""


class NextActions(msgspec.Struct, frozen=True):
    """The calls of one reply, and its words."""

    calls: tuple[Action, ...] = ()
    words: str = ""


def next_actions(calls: Iterable[ToolCall], words: str) -> NextActions:
    """Return the calls of a reply as actions, with its words in single spaces."""
    return NextActions(tuple(map(action_of, calls)), " ".join(words.split()))


def agree(one: NextActions, other: NextActions, likeness: Likeness) -> bool:
    """Return whether two replies are alike in this way."""
    if not one.calls and not other.calls:
        return likeness != "arguments" or one.words == other.words
    return _keys(one, likeness) == _keys(other, likeness)


def action_of(call: ToolCall) -> Action:
    """Return a call as an action."""
    given = json_object(call.arguments)
    arguments = call.arguments.strip() if given is None else msgspec.json.encode(given, order="sorted").decode()
    return Action(call.name, target_of(call)[:_TARGET_CHARS], arguments)


def target_of(call: ToolCall) -> str:
    """Return the thing that a call is about; empty if it has no text among its arguments."""
    fields = fields_of(call)
    if is_shell(call):
        command = first_argument(fields, COMMAND)
        words = cast("list[object]", command) if isinstance(command, list) else [command]
        return _program(str(words[-1])) if words and words[-1] else ""
    if paths := dict.fromkeys(access.path for access in accesses(call)):
        return " ".join(paths)
    if paths := [clean_path(path) or path for path in path_arguments(fields, PATH)]:
        return paths[0]
    texts = (text for value in fields.values() for text in strings_in(value))
    return next((" ".join(text.split()) for text in texts if text.strip()), "")


def _keys(reply: NextActions, likeness: Likeness) -> Counter[Hashable]:
    match likeness:
        case "tool":
            return Counter(call.tool for call in reply.calls)
        case "target":
            return Counter((call.tool, call.target) for call in reply.calls)
        case "arguments":
            return Counter((call.tool, call.arguments) for call in reply.calls)


def _program(command: str) -> str:
    """Return the first program of a command that does some work; the first word of a command that only a shell could read."""
    for part in chain.from_iterable(pipelines(command) or ()):
        if part.program not in _PREPARES:
            named = (word.text for word in part.words if not _IS_NO_PROGRAM.match(word.text))
            if found := next((word for word in named if word not in _RUNS_ANOTHER), ""):
                return found.rpartition("/")[2]
    return next(iter(command.split()), "")
