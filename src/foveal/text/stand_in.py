"""Putting a stand-in where a part was, without breaking the part's role in its atom."""

import msgspec

from foveal.text.repair import repair_part
from foveal.values.entry import Part, Stored, Text, ToolCall, ToolResult


def replace_part(part: Part | None, text: str) -> Part | None:
    """The part shown by this text: a call keeps its name and a result its call; nothing is left of others if empty."""
    match part:
        case ToolCall(call_id, name, _, signature):
            return repair_part(ToolCall(call_id, name, text, signature))[0]
        case ToolResult():
            return repair_part(msgspec.structs.replace(part, content=(Text(text),)))[0]
        case _:
            return Text(text) if text.strip() else None


def part_text(part: Part | None) -> str:
    """The words of a part that a passage could be pinned in."""
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


def holds_artifact(part: Part) -> bool:
    """Whether some of its text lives beside the log."""
    return isinstance(part, Stored) or (
        isinstance(part, ToolResult) and any(isinstance(item, Stored) for item in part.content)
    )


def stored_preview(part: Part, ref: str) -> Part:
    """A part whose text is an artifact, by its head and tail."""
    if isinstance(part, ToolResult):
        content = tuple(Text(_preview(item, ref)) if isinstance(item, Stored) else item for item in part.content)
        return msgspec.structs.replace(part, content=content)
    return Text(_preview(part, ref)) if isinstance(part, Stored) else part


def _preview(stored: Stored, ref: str) -> str:
    if stored.shown:
        return stored.shown
    note = f"[… {stored.size_bytes:,} bytes in {stored.lines:,} lines; head and tail shown; ref {ref}]"
    return f"{stored.head}\n{note}\n{stored.tail}"
