"""Content blocks of the Anthropic API that users and tools can say too."""

from collections.abc import Iterator

from foveal.analysis.recordings.fields import (
    NotUnderstood,
    Object,
    dump,
    expect_object,
    kind_of,
    list_or_none,
    object_or_none,
    text_or_none,
)
from foveal.analysis.recordings.parts import SpokenPart, base64_bytes, guess_type, text_part
from foveal.values.entry import File, Image, Opaque


def said(content: object) -> Iterator[SpokenPart]:
    """A string, or a list of strings and blocks."""
    if content is None or isinstance(content, str):
        yield from text_part(content)
        return
    blocks = list_or_none(content)
    if blocks is None:
        raise NotUnderstood(f"content must be a string or a list of blocks, not {kind_of(content)}")
    for value in blocks:
        if isinstance(value, str):
            yield from text_part(value)
        else:
            block = expect_object(value, "a content block")
            yield from said_block(block, dump(block))


def said_block(block: Object, raw: str) -> Iterator[SpokenPart]:
    """A text, image or document; anything else as the JSON it was written in (`raw`)."""
    match block.get("type"):
        case "text" if isinstance(block.get("text"), str):
            yield from text_part(block["text"])
        case "image":
            yield _image(block) or Opaque("anthropic", raw)
        case "document":
            yield _document(block) or Opaque("anthropic", raw)
        case _:
            yield Opaque("anthropic", raw)


def _image(block: Object) -> Image | None:
    source = object_or_none(block.get("source")) or {}
    url = text_or_none(source.get("url"))
    if url:
        return Image(guess_type(url), url=url)
    data = base64_bytes(text_or_none(source.get("data")) or "")
    return Image(text_or_none(source.get("media_type")) or "image/*", data=data) if data else None


def _document(block: Object) -> File | None:
    source = object_or_none(block.get("source")) or {}
    name = text_or_none(block.get("title")) or "document"
    media_type = text_or_none(source.get("media_type")) or "application/pdf"
    url = text_or_none(source.get("url"))
    if url:
        return File(media_type, name, url=url)
    if source.get("type") != "base64":
        return None
    data = base64_bytes(text_or_none(source.get("data")) or "")
    return File(media_type, name, data=data) if data else None
