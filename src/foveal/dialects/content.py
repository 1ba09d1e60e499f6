"""Contents of messages and tool results, as far as several formats spell them alike."""

from collections.abc import Iterable
from typing import TypeAlias

from foveal.dialects.json_values import string
from foveal.values.entry import Content, File, Image, Opaque, Status, Text, ToolResult
from foveal.values.shown import CALL_ENDED, SYNTHETIC_RESULT

SpokenPart: TypeAlias = Text | Image | File | Opaque
"""A part of a message that calls no tool, answers none and is no thinking."""

_INTERRUPTED = (
    "[Request interrupted by user",  # Claude Code, with or without "for tool use]"
    "The user doesn't want to proceed with this tool use",  # Claude Code, refused in the permission prompt
    "The user doesn't want to take this action right now",  # Claude Code, older
    "aborted by user after",  # Codex
    "Operation aborted",  # pi
    SYNTHETIC_RESULT,
)
"""Beginnings of results of calls that the user stopped. Looked for at the start alone, since results quote."""


def text_part(value: object, signature: object = None) -> tuple[Text, ...]:
    """Return the text as a part. An empty text is none: providers refuse it."""
    return (Text(value, string(signature)),) if isinstance(value, str) and value else ()


def result_content(parts: Iterable[SpokenPart]) -> tuple[Content, ...]:
    """Return the content of a tool result: texts, images and files. Any other block is kept as its JSON text."""
    return tuple(Text(part.json) if isinstance(part, Opaque) else part for part in parts)


def labelled(result: ToolResult, told: Status) -> tuple[Content, ...]:
    """Return the content of a result for a format without a field for its status: a first line says how the call ended.

    `told` is the status that the content tells by itself, as this format reads it.
    """
    label = CALL_ENDED.get(result.status)
    if label is None or told == result.status:
        return result.content
    first, rest = result.content[0], result.content[1:]
    return (Text(f"{label}\n{first.text}"), *rest) if isinstance(first, Text) else (Text(label), first, *rest)


def unlabelled(content: tuple[Content, ...]) -> tuple[tuple[Content, ...], Status]:
    """Return the content without the line that `labelled` wrote, and the status that the line told; `ok` without one."""
    first = content[0].text if content and isinstance(content[0], Text) else ""
    for status, label in CALL_ENDED.items():
        if first == label:
            return content[1:] or (Text(""),), status
        if first.startswith(f"{label}\n"):
            return (Text(first.removeprefix(f"{label}\n")), *content[1:]), status
    return content, "ok"


def result_status(content: Iterable[Content], is_error: bool) -> Status:
    """Return how a call ended, by its result's flag and by the words with which agents begin an interrupted one."""
    first = next((item.text for item in content if isinstance(item, Text)), "")
    if first.startswith(_INTERRUPTED):
        return "interrupted"
    return "error" if is_error else "ok"
