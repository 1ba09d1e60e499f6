"""Scripts in abstract operations: what a model does, said without the names of any client's tools.

    Step(say="I look.", do=(Read("a.py"), Shell("ls")))
    Step(say="Found it.", do=(Edit("a.py", "1 - x", "1 + x"),), faults=(Refusal(529, "Overloaded"),))

`tools.py` turns the operations into calls of the tools that a request offers. A file holds the same in TOML or JSON:

    [[step]]
    say = "I look."
    do = [{read = "a.py"}, {shell = "ls"}]
    [[step]]
    do = [{edit = {path = "a.py", old = "1 - x", new = "1 + x"}}]
    faults = [{status = 529, message = "Overloaded"}, {cut_after = 4}]
"""

import json
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias, cast

from foveal.testing.provider.replies import RawReply, Refusal, Silence, TooLong, Turn
from foveal.values.errors import BadInput
from foveal.values.own_tools import RECALL_TOOL


@dataclass(frozen=True)
class Read:
    """Read a file."""

    path: str


@dataclass(frozen=True)
class Shell:
    """Run a command."""

    command: str


@dataclass(frozen=True)
class Edit:
    """Replace a text in a file."""

    path: str
    old: str
    new: str


@dataclass(frozen=True)
class Own:
    """Call one of Foveal's own tools where it is offered, and run `true` where it is not, so that the steps are as many.

    A recall without a reference takes the newest one that the request shows.
    """

    tool: str = RECALL_TOOL
    arguments: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True)
class Delegate:
    """Give a task to a sub-agent. Several in one step run at the same time, where the client can do that."""

    task: str


@dataclass(frozen=True)
class RawCall:
    """Call a tool by its name, offered or not. A text is the input of a tool that takes no JSON."""

    tool: str
    arguments: Mapping[str, Any] | str = field(default_factory=dict[str, Any])
    namespace: str = ""


Operation: TypeAlias = Read | Shell | Edit | Own | Delegate | RawCall

StepFault: TypeAlias = Turn | Refusal | TooLong | RawReply | Silence
"""One answer in place of a step's. A turn without text and calls is the step's own reply, sent as this turn says."""


@dataclass(frozen=True)
class Step:
    """One reply of the model: what it thinks, says and does."""

    say: str = ""
    think: str = ""
    do: tuple[Operation, ...] = ()
    faults: tuple[StepFault, ...] = ()
    """Answers to the first requests for this step; the request after them gets the reply."""


@dataclass(frozen=True)
class Script:
    """The steps that a conversation plays."""

    steps: tuple[Step, ...]
    when: str = ""
    """Text that the first messages of a conversation must hold, for a sub-agent's script."""
    side: str = "A short title"
    """Answer to a request that offers no tools, where the script calls some: a title, a topic, a summary. Also that of a step
    without words, where the request forbids its calls."""

    @property
    def calls_tools(self) -> bool:
        """Whether any step does something."""
        return any(step.do for step in self.steps)


def read_scripts(path: str | Path) -> tuple[Script, ...]:
    """Return the scripts of a TOML or JSON file. Raise `BadInput` with the place of a mistake."""
    file = Path(path)
    try:
        text = file.read_text(encoding="utf-8")
        held: object = tomllib.loads(text) if file.suffix == ".toml" else json.loads(text)
    except (OSError, ValueError) as error:
        raise BadInput(f"the script {file} cannot be read: {error}") from error
    whole: object = {"step": cast("list[object]", held)} if isinstance(held, list) else held
    fields = _fields(whole, "the script", {"step", "side", "script"})
    others = [_script(one, f"script[{i}]", {"when"}) for i, one in enumerate(_items(fields, "script"))]
    first = _script({key: value for key, value in fields.items() if key != "script"}, "the script", {"script"})
    return (*others, first) if first.steps else tuple(others)


def _script(value: object, place: str, more: set[str]) -> Script:
    fields = _fields(value, place, {"step", "side"} | more)
    steps = tuple(_step(step, f"{place}, step[{i}]") for i, step in enumerate(_items(fields, "step")))
    named = {key: _text(fields[key], f"{place}, {key}") for key in ("when", "side") if key in fields}
    return Script(steps, **named)


def _step(value: object, place: str) -> Step:
    fields = _fields(value, place, {"say", "think", "do", "faults"})
    do = tuple(_operation(one, f"{place}, do[{i}]") for i, one in enumerate(_items(fields, "do")))
    faults = tuple(_fault(one, f"{place}, faults[{i}]") for i, one in enumerate(_items(fields, "faults")))
    say, think = (_text(fields.get(key, ""), f"{place}, {key}") for key in ("say", "think"))
    return Step(say, think, do, faults)


_OPERATIONS: dict[str, tuple[Callable[..., Operation], str]] = {
    "read": (Read, "path"),
    "shell": (Shell, "command"),
    "edit": (Edit, ""),
    "own": (Own, "tool"),
    "delegate": (Delegate, "task"),
    "raw": (RawCall, "tool"),
}
"""The operations of a file, with the field that a bare text stands for."""


def _operation(value: object, place: str) -> Operation:
    fields = _fields(value, place, set(_OPERATIONS))
    if len(fields) != 1:
        raise BadInput(f"{place} names {len(fields)} operations; it must name one of {', '.join(_OPERATIONS)}")
    (name, given), *_ = fields.items()
    make, bare = _OPERATIONS[name]
    return _made(make, {bare: given} if isinstance(given, str) and bare else given, f"{place}, {name}")


def _fault(value: object, place: str) -> StepFault:
    """Return a fault: a refusal has a `status`, an overflow a `limit`; everything else says how the reply is sent."""
    fields = _fields(value, place, None)
    if fields.get("silence") is True:
        return Silence()
    if "status" in fields:
        return (
            _made(RawReply, fields, place)
            if "body" in fields
            else _made(Refusal, {"message": "scripted"} | fields, place)
        )
    if "limit" in fields:
        return _made(TooLong, fields, place)
    if "fails" in fields:
        fields["fails"] = _fault(fields["fails"], f"{place}, fails")
    return _made(Turn, fields, place)


def _made(make: Callable[..., Any], fields: object, place: str) -> Any:
    try:
        return make(**cast("dict[str, Any]", fields))
    except TypeError as error:
        raise BadInput(f"{place}: {error}") from None


def _fields(value: object, place: str, known: set[str] | None) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise BadInput(f"{place} is {type(value).__name__}; expected a table")
    fields = dict(cast("dict[str, Any]", value))
    if known is not None and (strange := sorted(set(fields) - known)):
        raise BadInput(f"{place} has {', '.join(map(repr, strange))}; known are {', '.join(sorted(known))}")
    return fields


def _items(fields: Mapping[str, Any], key: str) -> list[object]:
    value = fields.get(key, [])
    if not isinstance(value, list):
        raise BadInput(f"{key!r} is {type(value).__name__}; expected a list")
    return cast("list[object]", value)


def _text(value: object, place: str) -> str:
    if not isinstance(value, str):
        raise BadInput(f"{place} is {type(value).__name__}; expected a text")
    return value
