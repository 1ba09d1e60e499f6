"""The parts of messages as texts with titles, for people who read a prompt."""

from collections.abc import Iterator

from foveal.values.entry import (
    File,
    Image,
    Opaque,
    Part,
    RedactedThinking,
    Stored,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)


def part_texts(role: str, part: Part) -> Iterator[tuple[str, str]]:
    """Yield the title and the text of a part, for people who read a prompt."""
    match part:
        case Text(text):
            yield role, text
        case Thinking(text):
            yield f"{role}, thinking", text
        case ToolCall(call_id, name, arguments):
            yield f"{role} calls {name} ({call_id})", arguments
        case ToolResult(call_id, content, status):
            yield f"result of {call_id}{'' if status == 'ok' else f', {status}'}", "\n".join(_word(c) for c in content)
        case _:
            yield role, _word(part)


def _word(part: Part) -> str:
    match part:
        case Text(text):
            return text
        case Image(media_type, data, url):
            where = url or f"{len(data or b''):,} bytes"
            return f"[image {media_type}, {where}]"
        case File(media_type, name):
            return f"[file {name}, {media_type}]"
        case Stored(sha256, size_bytes, _, head, tail):
            return f"{head}\n[artifact {sha256[:10]}, {size_bytes:,} bytes, by its beginning and end]\n{tail}"
        case Opaque(provider, json):
            return f"[{provider}'s own part, {len(json):,} characters]"
        case RedactedThinking(data):
            return f"[redacted thinking, {len(data):,} characters]"
        case _:
            return f"[{type(part).__name__}]"
