"""Turns: two of the formats want the user and the model to alternate, beginning and ending with the user."""

from collections.abc import Sequence
from typing import Any

from foveal.dialects.port import Wire
from foveal.values.entry import Message, Part, Text

CONTINUE = "Please continue."
"""Said by the user between two replies in a row, and after the last reply if no message follows it."""

BEGIN = "[The conversation begins with the reply below.]"


def join_turns(wires: list[Wire], chunk: Sequence[Wire], content: str, *, begin: Wire, go_on: Wire) -> None:
    """Append the chunk. Messages of the user in a row become one turn; `content` is the key of a turn's content."""
    for wire in chunk:
        last = wires[-1]["role"] if wires else None
        if wire["role"] != "user" and last != "user":
            wires.append(go_on if last else begin)
        if wire["role"] == last == "user":
            wires[-1] = {"role": "user", content: [*_blocks(wires[-1][content]), *_blocks(wire[content])]}
        else:
            wires.append(wire)


def label_system(message: Message) -> Sequence[Part]:
    """Return the parts of a message, those of a system message marked as such: among the others, these formats take only the
    user."""
    first = message.parts[0] if message.role == "system" else None
    return [Text(f"[system] {first.text}"), *message.parts[1:]] if isinstance(first, Text) else message.parts


def _blocks(content: Any) -> Sequence[Any]:
    """Return a content as blocks: clients may send a text for a list with one."""
    return [{"type": "text", "text": content}] if isinstance(content, str) else content
