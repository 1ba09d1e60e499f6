"""A client's request as it came: every field by its bytes, so that an unchanged one is sent on to the byte.

A client sends its whole conversation with every call, and nearly all of it came with the last one. So messages are told apart by
their bytes, and each of them is decoded only if somebody asks for it.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, overload

import msgspec

from foveal.dialects import find_dialect, json_values
from foveal.dialects.json_values import count
from foveal.dialects.port import Dialect, Wire
from foveal.record.client_list import LISTS
from foveal.values.errors import BadInput

_REPLY_LENGTH = ("max_tokens", "max_completion_tokens", "max_output_tokens")
_BETWEEN = re.compile(rb"[ \t\r\n]*([,\]])[ \t\r\n]*")
_BEGIN = re.compile(rb"\[[ \t\r\n]*")

_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""Errors of bytes that are no JSON, no UTF-8, or nested too deep."""

_raw_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])
_raw_list = msgspec.json.Decoder(list[msgspec.Raw])


class ClientMessages(Sequence[Wire]):
    """The messages of one request: their bytes, and each of them decoded when it is asked for."""

    def __init__(self, raw: bytes) -> None:
        self._raw = raw
        self._decoded: dict[int, Wire] = {}

    @cached_property
    def wires(self) -> Sequence[bytes]:
        """The messages by their bytes. Raise `BadInput` if they are no list."""
        return _cut(self._raw, ())

    def begin_with(self, known: Iterable[object]) -> None:
        """Look first for messages of these bytes, in their order: those that are found are not read once more."""
        if "wires" not in self.__dict__:
            self.wires = _cut(self._raw, known)

    @overload
    def __getitem__(self, at: int) -> Wire: ...
    @overload
    def __getitem__(self, at: slice) -> list[Wire]: ...
    def __getitem__(self, at: int | slice) -> Wire | list[Wire]:
        if isinstance(at, slice):
            return [self[i] for i in range(*at.indices(len(self)))]
        place = range(len(self))[at]
        if place not in self._decoded:
            try:
                self._decoded[place] = msgspec.json.decode(self.wires[place])
            except _UNREADABLE as error:
                raise BadInput(f"message {place} of the request cannot be read: {error}") from error
        return self._decoded[place]

    def __len__(self) -> int:
        return len(self.wires)


def _cut(raw: bytes, known: Iterable[object]) -> list[bytes]:
    """Return the elements of a JSON array by their bytes. A value that begins with all bytes of another one is that one."""
    begin = _BEGIN.match(raw)
    at = begin.end() if begin else 0
    wires: list[bytes] = []
    for wire in known if begin else ():
        after = _BETWEEN.match(raw, at + len(wire)) if isinstance(wire, bytes) and raw.startswith(wire, at) else None
        if after is None:
            break
        wires.append(wire)  # type: ignore[arg-type]
        if after[1] == b"]":
            return wires
        at = after.end()
    try:
        return [*wires, *map(bytes, _raw_list.decode(b"[" + raw[at:] if begin else raw))]
    except _UNREADABLE as error:
        raise BadInput(f"the messages of the request are no list ({error})") from error


class ClientRequest(msgspec.Struct, frozen=True):
    """The body of one request, in one provider's format."""

    dialect: Dialect
    model: str
    raw: bytes
    body: Mapping[str, Any]
    """The body, decoded."""
    fields: Mapping[str, msgspec.Raw]
    """The fields of the body by their bytes, in the client's order."""
    messages: ClientMessages

    @staticmethod
    def read(dialect: str, raw: bytes, model: str = "") -> "ClientRequest":
        """Read a body. `model` is the one of formats that name it in the address. Raise `BadInput` if it is no such body."""
        try:
            held = _raw_fields.decode(raw)
            messages = ClientMessages(bytes(held[LISTS[dialect]]))
            body = {key: messages if key == LISTS[dialect] else msgspec.json.decode(held[key]) for key in held}
        except (*_UNREADABLE, KeyError) as error:
            raise BadInput(
                f"this is not a request of the {dialect} dialect ({type(error).__name__}: {error})"
            ) from error
        return ClientRequest(find_dialect(dialect), str(body.get("model") or model), raw, body, held, messages)

    @property
    def reply_tokens(self) -> int | None:
        """The most tokens of the reply; None where the client does not say."""
        config = json_values.fields(self.body.get("generationConfig") or self.body.get("generation_config"))
        named = [self.body.get(key) for key in _REPLY_LENGTH]
        told = [count(one) for one in (*named, config.get("maxOutputTokens"), config.get("max_output_tokens"))]
        return next(filter(None, told), None)

    def with_messages(self, wires: Sequence[bytes], own_tools: Sequence[Mapping[str, Any]]) -> bytes:
        """Return the body with other messages, and with more tools behind the client's; all other fields by their bytes."""
        changed = {**self.fields, LISTS[self.dialect.name]: msgspec.Raw(b"[" + b",".join(wires) + b"]")}
        if own_tools:
            given = _raw_list.decode(self.fields["tools"]) if self.body.get("tools") else []
            changed["tools"] = msgspec.Raw(msgspec.json.encode(_with_tools(given, own_tools)))
        if self.dialect.name == "openai_chat" and self.body.get("stream"):
            # The client is not told unless it asked; without it, nobody learns the price of the prompt.
            options = {**json_values.fields(self.body.get("stream_options")), "include_usage": True}
            changed["stream_options"] = msgspec.Raw(msgspec.json.encode(options))
        return msgspec.json.encode(changed)


def _with_tools(given: Sequence[msgspec.Raw], own: Sequence[Mapping[str, Any]]) -> list[object]:
    """Return a client's tools with ours behind them. Functions that are declared together stay together: some take one list."""
    tools: list[object] = [*given]
    for tool in own:
        ours = tool.get("functionDeclarations")
        at = next((i for i, one in enumerate(given) if ours and _declared_in(_raw_fields.decode(one))), None)
        if ours is None or at is None:
            tools.append(tool)
            continue
        held = _raw_fields.decode(given[at])
        key = _declared_in(held)
        tools[at] = {**held, key: [*_raw_list.decode(held[key]), *ours]}
    return tools


def _declared_in(tool: Mapping[str, object]) -> str:
    """Return the key of a tool that holds declarations of functions; empty if there is none."""
    return next((key for key in ("functionDeclarations", "function_declarations") if key in tool), "")
