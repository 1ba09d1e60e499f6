"""Gemini, written as the google-genai SDK takes it: contents, and a config with system instruction and tools."""

from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from foveal.dialects.gemini import rules
from foveal.dialects.gemini.filter import GeminiFilter
from foveal.dialects.gemini.read import NAME, NO_SIGNATURE, read_reply, read_request
from foveal.dialects.gemini.spelling import both_spellings
from foveal.dialects.gemini.stream import GeminiStream
from foveal.dialects.media import MediaLimits
from foveal.dialects.opaque import verbatim
from foveal.dialects.port import CannotSay, Dialect, RequestOptions, ToolSpec, Wire, WireReader
from foveal.dialects.tools import hosted_by
from foveal.dialects.turns import BEGIN, CONTINUE, join_turns, label_system
from foveal.text.tool_names import sent_name
from foveal.values.entry import (
    File,
    Image,
    Message,
    Opaque,
    Part,
    RedactedThinking,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)

# Other parts of a reply, in the spelling of the SDK and in that of the wire. They are sent back as they came.
_KEPT_PARTS = both_spellings(
    "executable_code", "code_execution_result", "inline_data", "file_data", "tool_call", "tool_response"
)


class Gemini:
    """The dialect of the Gemini API."""

    name = NAME
    problems = staticmethod(rules.problems)
    reader = WireReader(read_reply, read_request, GeminiStream, GeminiFilter)
    # No GIF, but the two types of phones; 7 MB for an image in the request; sound and video as well.
    media = MediaLimits(
        images=rules.IMAGES,
        image_bytes=7_000_000,
        files=("application/pdf", "application/json", "application/rtf", "text/", "audio/", "video/"),
        file_urls=("application/", "text/", "audio/", "video/"),
        schemes=("http://", "https://", "gs://"),
    )

    def hides(self, part: Part, writer: str | None, model: str) -> str:
        match part:
            case Thinking() | RedactedThinking():
                return "thoughts are not sent back; their signatures travel with the calls"
            case Opaque(provider) if provider != NAME:
                return f"a part of {provider}'s own format"
            case Opaque() if writer != model:
                return f"a part of {writer or 'an unknown model'}, which {model} may not accept"
            case Opaque() if not _KEPT_PARTS & verbatim(part).keys():
                return "a part that the SDK cannot say"
            case Text(text, signature) if (
                signature and not text.strip() and not (writer == model and _signature(signature))
            ):
                return f"a signature of {writer or 'an unknown model'}, without text"
            case _:
                return ""

    def tool_name(self, name: str) -> str:
        return _name(sent_name(name))

    def signs(self, part: Part) -> bool:
        return isinstance(part, Text | ToolCall) and bool(_signature(part.signature))

    def chunk(self, messages: Sequence[Message]) -> list[Wire]:
        wires: list[Wire] = []
        names: dict[str, str] = {}
        for message in messages:
            match message.role:
                case "assistant":
                    names |= {part.id: _name(part.name) for part in message.parts if isinstance(part, ToolCall)}
                    wires.append({"role": "model", "parts": _reply_parts(message.parts)})
                case "tool":
                    wires.append({"role": "user", "parts": _result_parts(message.parts, names)})
                case _:
                    wires.append({"role": "user", "parts": [_content(part) for part in label_system(message)]})
        return wires

    def join(self, wires: list[Wire], chunk: Sequence[Wire]) -> None:
        join_turns(wires, chunk, "parts", begin=_user_text(BEGIN), go_on=_user_text(CONTINUE))

    def request(
        self, ask: RequestOptions, lead: Sequence[Message], wires: list[Wire], tail: Sequence[Wire] = ()
    ) -> dict[str, Any]:
        contents = list(wires)
        self.join(contents, tail)
        if not contents or contents[-1]["role"] == "model":
            contents.append(_user_text(CONTINUE))
        config: dict[str, Any] = {}
        texts = [part.text for message in lead for part in message.parts if isinstance(part, Text)]
        if texts:
            config["system_instruction"] = "\n\n".join(texts)
        if ask.tools:
            declared = [_tool(spec) for spec in ask.tools if spec.hosted is None]
            hosted = [tool for spec in ask.tools if (tool := hosted_by(spec, NAME)) is not None]
            config["tools"] = hosted + (
                [{"function_declarations": declared}] if declared else []
            )  # as the SDK orders them
        return {"model": ask.model, "contents": contents, "config": config}


def _user_text(text: str) -> Wire:
    return {"role": "user", "parts": [{"text": text}]}


def _reply_parts(parts: Sequence[Part]) -> list[Wire]:
    wires: list[Wire] = []
    called = False
    for part in parts:
        match part:
            case Text(text, signature):
                wires.append({"text": text} | _signature(signature))
            case ToolCall(call_id, name, arguments, signature):
                value = msgspec.json.decode(arguments, type=dict[str, Any])
                call = {"id": call_id, "name": _name(name), "args": value}
                wire: Wire = {"function_call": call} | _signature(signature)
                if not called:
                    wire.setdefault("thought_signature", NO_SIGNATURE)
                called = True
                wires.append(wire)
            case Opaque():
                wires.append(verbatim(part))
            case _:
                raise CannotSay(f"a reply cannot hold a {type(part).__name__}")
    return wires


def _signature(signature: str | None) -> Wire:
    try:
        return {"thought_signature": b64decode(signature, validate=True)} if signature else {}
    except ValueError:  # a signature of another provider
        return {}


def _name(name: str) -> str:
    """Return a name that this provider takes: it begins with a letter or an underscore."""
    return name if name[:1].isalpha() or name.startswith("_") else f"_{name}"


def _result_parts(parts: Sequence[Part], names: Mapping[str, str]) -> list[Wire]:
    """Return the responses in the order of the calls, and their images after them, where every Gemini takes images."""
    responses: list[Wire] = []
    after: list[Wire] = []
    for part in parts:
        if not isinstance(part, ToolResult):
            continue
        text = "\n".join(item.text for item in part.content if isinstance(item, Text))
        after.extend(_content(item) for item in part.content if isinstance(item, Image | File))
        key = "output" if part.status == "ok" else "error"
        response = {"id": part.call, "name": names[part.call], "response": {key: text or "[see below]"}}
        responses.append({"function_response": response})
    return responses + after


def _content(part: Part) -> Wire:
    match part:
        case Text(text):
            return {"text": text}
        case Image(media_type, data, url):
            # An address whose suffix tells no type: the provider looks at the bytes, and wants one to be named.
            return _media(media_type if media_type in rules.IMAGES else "image/png", data, url)
        case File(media_type, _, data, url) if data or url:
            return _media(media_type, data, url)
        case Opaque():
            return verbatim(part)
        case _:
            raise CannotSay(f"a {type(part).__name__} has no place in this message")


def _media(media_type: str, data: bytes | None, url: str | None) -> Wire:
    if data:
        return {"inline_data": {"mime_type": media_type, "data": b64encode(data).decode("ascii")}}
    return {"file_data": {"file_uri": url, "mime_type": media_type}}


def _tool(spec: ToolSpec) -> dict[str, Any]:
    tool = {"name": spec.name, "description": spec.description, "parameters_json_schema": spec.parameters}
    return {key: value for key, value in tool.items() if value}


DIALECT: Dialect = Gemini()
