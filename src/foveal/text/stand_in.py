"""Stand-ins in the place of parts, such that a part keeps its role in its atom."""

from collections.abc import Iterator

import msgspec

from foveal.text.repair import repair_part
from foveal.values.entry import Content, Part, Stored, Text, ToolCall, ToolResult


def replace_part(part: Part | None, text: str) -> Part | None:
    """Return the part with this text as its content. A call keeps its name, a result its call; an empty text removes other
    parts."""
    match part:
        case ToolCall(call_id, name, _, signature):
            return repair_part(ToolCall(call_id, name, text, signature))[0]
        case ToolResult():
            return repair_part(msgspec.structs.replace(part, content=(Text(text),)))[0]
        case _:
            return Text(text) if text.strip() else None


def part_text(part: Part | None) -> str:
    """Return the text of a part in which a passage could be pinned; empty for a part without text."""
    match part:
        case Text(text):
            return text
        case ToolResult():
            return result_text(part)
        case _:
            return ""


def result_text(result: ToolResult) -> str:
    """Return the text items of a result, one below the other."""
    return "\n".join(item.text for item in result.content if isinstance(item, Text))


def content_texts(content: tuple[Content, ...]) -> Iterator[str]:
    """Yield the texts of a result's content; of an artifact, its head, its tail, and the lines between that are known."""
    for item in content:
        match item:
            case Text(text):
                yield text
            case Stored(_, _, _, head, tail, _, between):
                yield from (head, *(line.text for line in between), tail)
            case _:
                pass


def holds_artifact(part: Part) -> bool:
    """Return whether a text of the part is an artifact, stored beside the log."""
    return isinstance(part, Stored) or (
        isinstance(part, ToolResult) and any(isinstance(item, Stored) for item in part.content)
    )
