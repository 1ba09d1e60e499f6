"""Putting a stand-in where a part was, without breaking the part's role in its atom."""

from foveal.core.entry import Part, Stored, Text, ToolCall, ToolResult


def replace_part(part: Part | None, text: str) -> Part | None:
    """The part shown by this text: a call keeps its name and a result its call; nothing is left of others if empty."""
    match part:
        case ToolCall(call_id, name, _, signature):
            return ToolCall(call_id, name, text, signature)
        case ToolResult(call, _, status):
            return ToolResult(call, (Text(text),), status)
        case _:
            return Text(text) if text else None


def stored_preview(result: ToolResult, ref: str) -> ToolResult:
    """A result whose text is an artifact, by its head and tail."""
    content = tuple(Text(_preview(item, ref)) if isinstance(item, Stored) else item for item in result.content)
    return ToolResult(result.call, content, result.status)


def _preview(stored: Stored, ref: str) -> str:
    note = f"[… {stored.size_bytes:,} bytes in {stored.lines:,} lines; head and tail shown; ref {ref}]"
    return f"{stored.head}\n{note}\n{stored.tail}"
