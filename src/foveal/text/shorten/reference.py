"""Level `reference`: one line that names the text left out and the way to get it back."""

from foveal.text import guard as frame
from foveal.values.entry import Content, File, Image, Status, Stored, Text, ToolResult

_NAME_CHARS = 200
"""Longest name from outside, such as a path or a sentence, on one line and without characters that could end the line's
brackets."""


def reference(what: str, tokens: int, ref: str, newer: str = "", *, hint: str = "", ended: str = "") -> str:
    """Return the one-line stand-in. `newer` is the reference of the result that made this one stale, `hint` a remark of the
    tool, `ended` how a call ended that did not succeed."""
    pointer = f"; newer: {newer}" if newer else ""
    line = f"[{frame.safe_name(what, _NAME_CHARS)}{ended}: {tokens:,} tokens not shown; ref {ref}{pointer}]"
    return f"{line} {hint}" if hint else line


def result_reference(result: ToolResult, tool: str, tokens: int, ref: str, newer: str = "", *, hint: str = "") -> str:
    """Return the one-line stand-in of a result: its own summary or the name of its tool, and whether the call failed."""
    what = result.summary or f"{tool} result".strip()
    return reference(what, tokens, ref, newer, hint=hint, ended=_ENDED[result.status])


_ENDED: dict[Status, str] = {"ok": "", "error": ", failed", "interrupted": ", interrupted"}


def gap_line(entries: int, tokens: int, ref: str) -> str:
    messages = "message" if entries == 1 else "messages"
    return f"[{entries:,} earlier {messages} ({tokens:,} tokens) not shown; ref {ref}]"


def as_text(content: tuple[Content, ...]) -> str:
    """Return a result as one text, for levels that shorten text; images and files by a word in brackets."""
    return "\n".join(_as_text(item) for item in content)


def _as_text(item: Content) -> str:
    match item:
        case Text(text):
            return text
        case Image(media_type, _, _, width, height):
            size = f" {width}×{height}" if width and height else ""
            return f"[image {frame.safe_name(media_type, _NAME_CHARS)}{size}]"
        case File(media_type, name):
            return f"[file {frame.safe_name(name, _NAME_CHARS)} {frame.safe_name(media_type, _NAME_CHARS)}]"
        case Stored(_, size_bytes, lines):
            known = "\n".join((*(line.text for line in item.between), ""))
            return f"{item.head}\n[{size_bytes:,} bytes, {lines:,} lines]\n{known}{item.tail}"
