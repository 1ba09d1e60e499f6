"""Parts that several formats spell almost alike: images in data URLs, base64, and how a tool call ended."""

import binascii
import re
from base64 import b64decode
from collections.abc import Iterable
from typing import TypeAlias

from foveal.analysis.recordings.fields import Object, count_or_zero, dump, text_or_none
from foveal.values.entry import Content, File, Image, Opaque, Status, Text

SpokenPart: TypeAlias = Text | Image | File | Opaque
"""What a user, a model or a tool can say."""

_DATA_URL = re.compile(r"data:(?P<type>[^;,]*)(;[^;,]*)*;base64,", re.IGNORECASE)

_TYPES = {
    "png": "image/png",
    "jpg": "image/jpeg",
    "jpeg": "image/jpeg",
    "gif": "image/gif",
    "webp": "image/webp",
    "pdf": "application/pdf",
    "txt": "text/plain",
    "md": "text/markdown",
    "csv": "text/csv",
    "json": "application/json",
    "html": "text/html",
}

_INTERRUPTED = (
    "[Request interrupted by user",  # Claude Code, with or without "for tool use]"
    "The user doesn't want to proceed with this tool use",  # Claude Code, refused in the permission prompt
    "The user doesn't want to take this action right now",  # Claude Code, older
    "aborted by user after",  # Codex
    "Operation aborted",  # pi
)
"""How agents begin the result of a call that the user stopped. Looked for at the start alone, since results quote."""


def base64_bytes(text: str) -> bytes | None:
    """The bytes, or None where the recording holds a placeholder instead."""
    try:
        return b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        return None


def data_url(url: str) -> tuple[str, bytes] | None:
    """Media type and bytes of a `data:…;base64,` URL, None for every other URL."""
    match = _DATA_URL.match(url)
    data = base64_bytes(url[match.end() :]) if match else None
    return (match["type"], data) if match and data is not None else None


def image_of_url(url: str) -> Image:
    found = data_url(url)
    if found:
        return Image(found[0] or "image/*", data=found[1])
    return Image(guess_type(url) if not url.startswith("data:") else "image/*", url=url)


def guess_type(name: str, otherwise: str = "image/*") -> str:
    """The media type by the suffix. (`mimetypes` asks the machine, which makes a recording differ between machines.)"""
    return _TYPES.get(name.partition("?")[0].rpartition(".")[2].lower(), otherwise)


def as_content(parts: Iterable[SpokenPart]) -> tuple[Content, ...]:
    """Results hold texts, images and files; what else a recording has there is kept as its JSON text."""
    return tuple(Text(part.json) if isinstance(part, Opaque) else part for part in parts)


def result_status(content: Iterable[Content], is_error: bool) -> Status:
    first = next((item.text for item in content if isinstance(item, Text)), "")
    if first.startswith(_INTERRUPTED):
        return "interrupted"
    return "error" if is_error else "ok"


def opaque(provider: str, block: Object) -> Opaque:
    return Opaque(provider, dump(block))


def text_part(value: object, signature: object = None) -> tuple[Text, ...]:
    """An empty text is no part: providers refuse it, and it says nothing."""
    return (Text(value, text_or_none(signature)),) if isinstance(value, str) and value else ()


def total(usage: Object, *keys: str) -> int:
    return sum(count_or_zero(usage.get(key)) for key in keys)
