"""Attachments of a Claude Code session: notes, files and memories that were put before the model beside the user's words.

Versions since 2026 write beside each attachment the texts that the model was shown (`rendered`) and in whose name
(`renderedRole`). Of older ones only those are read whose text is in the file as it is: queued prompts, context of hooks, files,
memories and listings. What the agent made of the others is not recorded.
"""

from collections.abc import Iterator

from foveal.dialects.anthropic.read import read_content
from foveal.dialects.content import SpokenPart, text_part
from foveal.dialects.json_values import JsonObject, elements, fields, json_text, mapping, string
from foveal.dialects.media import base64_bytes
from foveal.values.entry import File, Image, Role

_PLAIN = {"queued_command": "prompt", "hook_additional_context": "content", "skill_listing": "content"}
"""The field that holds the text, for types whose text is plain in the file."""


def attachment_parts(kind: str, attachment: JsonObject, record: JsonObject) -> tuple[Role, tuple[SpokenPart, ...]]:
    """Return in whose name an attachment was shown, and its parts; none where the model saw nothing or the file has no text."""
    if "rendered" in record:
        role: Role = "system" if record.get("renderedRole") == "system" else "user"
        return role, tuple(part for shown in elements(record["rendered"]) for part in _rendered(shown))
    if kind in _PLAIN:
        return "user", tuple(_content(attachment.get(_PLAIN[kind])))
    if lines := [line for line in elements(attachment.get("addedLines")) if isinstance(line, str)]:
        return "user", text_part("\n".join(lines))
    if kind in ("file", "nested_memory", "edited_text_file"):
        return "user", tuple(_file(attachment))
    return "user", ()


def _rendered(shown: object) -> Iterator[SpokenPart]:
    found = mapping(shown)
    yield from _content(shown if found is None else found.get("content"))


def _content(value: object) -> Iterator[SpokenPart]:
    given = [value] if isinstance(value, str) else elements(value)
    yield from read_content([one for one in given if isinstance(one, str) or mapping(one) is not None], json_text)


def _file(attachment: JsonObject) -> Iterator[SpokenPart]:
    """Yield the file of an attachment: its text under its name, or the image or document itself."""
    name = string(attachment.get("filename")) or string(attachment.get("path")) or "file"
    held = fields(attachment.get("content"))
    file = fields(held.get("file"))
    media_type = string(file.get("type")) or ""
    if data := base64_bytes(string(file.get("base64")) or ""):
        is_image = media_type.startswith("image/")
        yield Image(media_type, data) if is_image else File(media_type or "application/pdf", name, data)
        return
    texts = (attachment.get("snippet"), file.get("content"), held.get("content"), attachment.get("content"))
    text = next((one for one in texts if isinstance(one, str) and one), "")
    yield from text_part(f"{name}\n{text}" if text else "")
