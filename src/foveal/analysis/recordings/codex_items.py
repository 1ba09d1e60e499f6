"""Response items of a Codex rollout: what was said, called and answered."""

import json
import re
from collections.abc import Iterator

from foveal.analysis.recordings.fields import (
    NotUnderstood,
    Object,
    arguments_text,
    dump,
    expect_object,
    expect_text,
    kind_of,
    list_or_none,
    object_or_none,
    text_or_none,
)
from foveal.analysis.recordings.parts import SpokenPart, as_content, image_of_url, opaque, result_status, text_part
from foveal.values.entry import Content, Text, ToolCall, ToolResult

_EXIT_CODE = re.compile(r"(?:^|\n)(?:Exit code: |Process exited with code )(-?\d+)")
_HEADER_CHARS = 400
"""Shell results open with a few lines about the run; the command's own output comes after them and may say anything."""


def said(content: object) -> Iterator[SpokenPart]:
    if content is None or isinstance(content, str):
        yield from text_part(content)
        return
    parts = list_or_none(content)
    if parts is None:
        raise NotUnderstood(f"`content` of a Codex item must be a string or a list, not {kind_of(content)}")
    for value in parts:
        yield from _said(expect_object(value, "a content item"))


def _said(part: Object) -> Iterator[SpokenPart]:
    url = text_or_none(part.get("image_url"))
    match part.get("type"):
        case "input_text" | "output_text" | "text" if isinstance(part.get("text"), str):
            yield from text_part(part["text"])
        case "refusal" if isinstance(part.get("refusal"), str):
            yield from text_part(part["refusal"])
        case "input_image" if url:
            yield image_of_url(url)
        case _:
            yield opaque("openai", part)


def call_of(kind: str, item: Object) -> ToolCall | None:
    """The call, if the agent has to answer it. Calls that the provider runs itself (web search) are none."""
    call_id = text_or_none(item.get("call_id")) or text_or_none(item.get("id"))
    match kind:
        case "function_call" | "custom_tool_call":
            name = expect_text(item.get("name"), f"`name` of a {kind}")
            arguments = arguments_text(item.get("arguments" if kind == "function_call" else "input"))
            return ToolCall(expect_text(call_id, f"`call_id` of a {kind}"), _full_name(item, name), arguments)
        case "local_shell_call" if call_id:
            return ToolCall(call_id, "local_shell", dump(item.get("action")))
        case "tool_search_call" if call_id and item.get("execution") == "client":
            return ToolCall(call_id, "tool_search", arguments_text(item.get("arguments")))
        case _:
            return None


def _full_name(item: Object, name: str) -> str:
    namespace = text_or_none(item.get("namespace"))
    if not namespace or namespace == "functions" or name.startswith(namespace):
        return name
    return f"{namespace}{name}" if namespace.endswith("_") else f"{namespace}.{name}"


def result_of(item: Object) -> ToolResult:
    output = item.get("output", item.get("tools"))
    wrapped = object_or_none(output)
    failed = wrapped is not None and wrapped.get("success") is False
    if wrapped is not None:
        output = wrapped.get("content", dump(wrapped))
    elif "output" not in item and output is not None:
        output = dump(output)
    content = as_content(said(output))
    call = text_or_none(item.get("call_id")) or text_or_none(item.get("id"))
    status = result_status(content, failed or _exit_code(content) not in (None, 0))
    return ToolResult(expect_text(call, "`call_id` of an output"), content, status)


def _exit_code(content: tuple[Content, ...]) -> int | None:
    """The exit code that Codex writes into a shell result: into its head, or into JSON around the output (older)."""
    text = next((item.text for item in content if isinstance(item, Text)), "")
    if text.startswith('{"output":') and '"exit_code":' in text:
        try:
            whole = object_or_none(json.loads(text)) or {}
        except (ValueError, RecursionError):
            return None
        code = (object_or_none(whole.get("metadata")) or {}).get("exit_code")
        return code if isinstance(code, int) else None
    found = _EXIT_CODE.search(text[:_HEADER_CHARS])
    return int(found[1]) if found else None
