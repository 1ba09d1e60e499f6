"""Exchanges as they were seen by a client, read from the files of a tap or of the provider's recorder."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from foveal.dialects import find_dialect
from foveal.integrations.routes import find_route
from foveal.models.counters import encoding
from foveal.testing.provider.cache import prompt_blocks, text_tokens
from foveal.values.entry import Message, Text, ToolResult
from foveal.values.own_tools import RECALL_TOOL, SEARCH_TOOL

_OK = 200
_UPGRADE = 426
_ENDS = (b"message_stop", b"response.completed", b"response.incomplete", b"finishReason", b"[DONE]")
_FAILS = (b"event: error", b"event: response.failed", b'data: {"error"')
_TELLING_CHARS = 12


class ClientExchange(NamedTuple):
    """One request of a client, and the answer that it got."""

    path: str
    status: int
    """0 if there was none."""
    asked: bytes
    sent: Sequence[bytes]
    """The bodies that the provider got for it."""
    told: bytes
    is_upgrade: bool = False
    cpu: tuple[float, float] = (0.0, 0.0)
    """Processor time of the gateway before and after."""

    @property
    def error(self) -> str:
        """The error that the client saw; empty if there was none."""
        if self.status != _OK:
            return "" if self.is_upgrade and self.status == _UPGRADE else str(self.status or "lost")
        if any(mark in self.told for mark in _FAILS):
            return "error event"
        is_stream = self.told.lstrip().startswith((b"event:", b"data:", b":"))
        return "cut" if is_stream and not any(mark in self.told for mark in _ENDS) else ""

    @property
    def is_folded(self) -> bool:
        """Whether the provider got another body than the client's."""
        return bool(self.sent) and self.sent[0] != self.asked

    @property
    def shows_own_tools(self) -> bool:
        """Whether the client was told of a tool of the gateway's, or tells of one."""
        return any(name.encode() in text for name in (RECALL_TOOL, SEARCH_TOOL) for text in (self.told, self.asked))

    @property
    def hides_newest(self) -> bool:
        """Whether a result that the client has just sent reached the provider without a line of it."""
        if not self.is_folded or self.status != _OK:
            return False
        sent = "\n".join(_newest_results(self.path, self.sent[0]))
        return any(not _is_seen(text, sent) for text in _newest_results(self.path, self.asked))

    @property
    def asked_tokens(self) -> int:
        """Tokens of the client's request by o200k."""
        route = find_route(self.path)
        blocks = prompt_blocks(route.dialect, json.loads(self.asked)) if route else []
        return sum(text_tokens(block.value, encoding("o200k_base").count) for block in blocks)


def tapped(folder: Path) -> list[ClientExchange]:
    """Return the calls of models in the folder of a tap, and requests for WebSockets."""
    found: list[ClientExchange] = []
    for number in sorted({path.name[:5] for path in folder.iterdir()} if folder.is_dir() else ()):
        facts: dict[str, Any] = _read_json(folder / f"{number}.json")
        asked = _read_bytes(folder / f"{number}-asked")
        sent = [path.read_bytes() for path in sorted(folder.glob(f"{number}-sent-*"))]
        is_upgrade = bool(facts.get("is_upgrade"))
        path = facts.get("path") or _guessed_path(asked)
        if is_upgrade or (find_route(path) and facts.get("method", "POST") == "POST"):
            cpu = (facts.get("cpu_before", 0.0), facts.get("cpu_after", 0.0))
            status, told = facts.get("status", 0), _read_bytes(folder / f"{number}-told")
            found.append(ClientExchange(path, status, asked, sent, told, is_upgrade, cpu))
    return found


def recorded(folder: Path) -> list[ClientExchange]:
    """Return the same of the folder of a provider's recorder: the client talked to the provider itself."""
    found: list[ClientExchange] = []
    for path in sorted(folder.glob("*-request.json")):
        request = _read_json(path)
        answer = _read_json(path.with_name(path.name.replace("request", "response")))
        where = request["target"].partition("?")[0]
        is_upgrade = request["headers"].get("upgrade", "").lower() == "websocket"
        if is_upgrade or (find_route(where) and request["method"] == "POST"):
            asked = json.dumps(request["body"]).encode()
            told = answer.get("body", "")
            raw = told.encode() if isinstance(told, str) else json.dumps(told).encode()
            found.append(ClientExchange(where, answer.get("status", 0), asked, [asked], raw, is_upgrade))
    return found


def _guessed_path(asked: bytes) -> str:
    """Return the path of a request whose gateway was killed before it could write it down."""
    for mark, path in ((b'"contents"', "/models/m:streamGenerateContent"), (b'"input"', "/responses")):
        if asked.startswith(b"{") and mark in asked and b'"messages"' not in asked:
            return path
    return "/messages" if asked else ""


def _read_json(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def _read_bytes(path: Path) -> bytes:
    return path.read_bytes() if path.exists() else b""


def _newest_results(path: str, raw: bytes) -> list[str]:
    """Return the texts of the results after the newest reply."""
    route = find_route(path)
    if route is None:
        return []
    messages: Sequence[Message] = (
        find_dialect(route.dialect).reader.request({"model": route.model, **json.loads(raw)}).messages
    )
    last = max((i for i, one in enumerate(messages) if one.role == "assistant"), default=len(messages))
    parts = (part for one in messages[last + 1 :] for part in one.parts)
    return ["\n".join(_texts(part)) for part in parts if isinstance(part, ToolResult)]


def _texts(result: ToolResult) -> Iterator[str]:
    for one in [result.content] if isinstance(result.content, str) else result.content:
        text = one if isinstance(one, str) else one.text if isinstance(one, Text) else ""
        if text:
            yield text


def _is_seen(text: str, sent: str) -> bool:
    lines = [line.strip() for line in text.splitlines() if len(line.strip()) >= _TELLING_CHARS]
    return any(line in sent for line in lines) if lines else text.strip() in sent
