"""Every place where foreign text gets into a prompt, as functions that return the text for the model."""

import json
from collections.abc import Callable, Iterator
from typing import Any

from foveal.text.guard import neutralise_part, safe_name, wrap
from foveal.values.entry import File, Image, Part, Stored, Text, ToolCall, ToolResult

NONCE = "k3v9x2m1qb"


def _shown(part: Part) -> str:
    """All texts of a part, one below the other, as it is sent."""
    match neutralise_part(part):
        case Text(text):
            return text
        case ToolResult(_, content, _, _, summary):
            return "\n".join((*map(_words, content), "", summary))
        case ToolCall(_, name, arguments):
            return "\n".join((name, arguments, *_strings(arguments)))
        case Image() | File() | Stored() as item:
            return _words(item)
        case other:
            raise AssertionError(other)


def _words(item: Text | Image | File | Stored) -> str:
    match item:
        case Text(text):
            return text
        case Image(media_type):
            return f"[image {media_type}]"
        case File(media_type, name):
            return f"[file {name} {media_type}]"
        case Stored():
            return f"{item.head}\n…\n{item.tail}"


def _strings(arguments: str) -> Iterator[str]:
    """The strings and keys of a JSON text, decoded; each in quotes, as it never begins a line."""

    def walk(value: Any) -> Iterator[str]:
        match value:
            case str():
                yield f'"{value}"'
            case list():
                for item in value:
                    yield from walk(item)
            case dict():
                for key, item in value.items():
                    yield f'"{key}"'
                    yield from walk(item)
            case _:
                return

    yield from walk(json.loads(arguments))


def _halves(attack: str) -> tuple[Text, Text]:
    middle = max(1, len(attack) // 2)
    return Text(attack[:middle]), Text(attack[middle:])


SINKS: dict[str, Callable[[str], str]] = {
    "what a user says": lambda a: _shown(Text(a)),
    "a result": lambda a: _shown(ToolResult("c", (Text(a),))),
    "an error": lambda a: _shown(ToolResult("c", (Text(f"Error: {a}"),), "error")),
    "a result in two parts": lambda a: _shown(ToolResult("c", _halves(a))),
    "a result's own summary": lambda a: _shown(ToolResult("c", (Text("fine"),), summary=a)),
    "a file in a result": lambda a: _shown(ToolResult("c", (File("text/plain", a),))),
    "a file's name": lambda a: _shown(File("text/plain", a)),
    "a file's type": lambda a: _shown(File(a, "x.txt")),
    "an image's type": lambda a: _shown(Image(a)),
    "an artifact's head": lambda a: _shown(ToolResult("c", (Stored("0" * 64, 9, 9, a, "end"),))),
    "an artifact's tail": lambda a: _shown(Stored("0" * 64, 9, 9, "begin", a)),
    "a tool's name": lambda a: _shown(ToolCall("c", a, "{}")),
    "an argument": lambda a: _shown(ToolCall("c", "bash", json.dumps({"command": ["x", a]}))),
    "an argument, unescaped": lambda a: _shown(ToolCall("c", "bash", json.dumps({"command": a}, ensure_ascii=False))),
    "a key": lambda a: _shown(ToolCall("c", "bash", json.dumps({a: {a: 1}}))),
    "a name in a line of ours": lambda a: f"[{safe_name(a, 60)}: 3 files]",
    "a fence": lambda a: wrap("rules", a, nonce=NONCE),
    "an attribute": lambda a: wrap("rules", "be brief", nonce=NONCE, attributes={"path": a}),
}
