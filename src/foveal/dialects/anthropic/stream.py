"""Anthropic Messages, streamed: events of one reply, assembled.

`message_start` brings the frame; each block has a start, deltas and a stop; `message_delta` brings the stop reason and the final
usage; `message_stop` ends the reply.
"""

import json
from collections.abc import Mapping
from typing import Any

import msgspec

from foveal.dialects.anthropic.read import read_reply
from foveal.dialects.port import Wire, WireReply
from foveal.values.entry import Stop

_ARGUMENTS = "partial_json"


class AnthropicStream:
    """Assembles the events of one reply."""

    def __init__(self) -> None:
        self._frame: Wire = {}
        self._blocks: dict[int, Wire] = {}
        self._arguments: dict[int, str] = {}
        self.stop: Stop = "aborted"

    def feed(self, event: Mapping[str, Any]) -> None:
        match event.get("type"):
            case "message_start":
                self._frame = dict(event["message"])
            case "content_block_start":
                self._blocks[event["index"]] = dict(event["content_block"])
            case "content_block_delta":
                self._extend(event["index"], event["delta"])
            case "message_delta":
                counted: Mapping[str, Any] = event.get("usage") or {}
                before: Mapping[str, Any] = self._frame.get("usage") or {}
                self._frame |= event.get("delta") or {}
                self._frame["usage"] = {**before, **{key: n for key, n in counted.items() if n is not None}}
            case "message_stop":
                self.stop = "done"
            case "error":
                self.stop = "error"
            case _:
                pass

    def _extend(self, index: int, delta: Mapping[str, Any]) -> None:
        """Add a delta to its block: its text to the field of its name, a citation to the list of them."""
        block = self._blocks[index]
        for key, piece in delta.items():
            if key == "type":
                continue
            if key == _ARGUMENTS:
                self._arguments[index] = self._arguments.get(index, "") + piece
            elif key == "citation":
                block["citations"] = [*(block.get("citations") or ()), piece]
            elif isinstance(piece, str) and isinstance(block.get(key), str):
                block[key] += piece
            else:
                block[key] = piece

    @property
    def body(self) -> Wire:
        blocks = [self._whole(index) for index in sorted(self._blocks)]
        return {**self._frame, "content": blocks}

    def _whole(self, index: int) -> Wire:
        """Return a block with its input: decoded, or as the text that has arrived, where that is not JSON yet."""
        block, arguments = self._blocks[index], self._arguments.get(index)
        if not arguments:
            return dict(block)
        try:
            return {**block, "input": json.loads(arguments)}
        except ValueError:
            return {**block, "input": arguments}

    def reply(self) -> WireReply:
        message, usage = read_reply(self.body)
        return WireReply(msgspec.structs.replace(message, stop=self.stop), usage)
