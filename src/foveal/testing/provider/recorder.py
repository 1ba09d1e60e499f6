"""Recorder: every request and every answer as a JSON file, without the keys."""

import json
import re
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from foveal.testing.provider.listener import Connection, HttpRequest

HIDDEN = "(hidden)"
_SECRET_HEADERS = frozenset(
    {"authorization", "proxy-authorization", "x-api-key", "api-key", "x-goog-api-key", "cookie", "x-foveal-token"}
)
_SECRET_QUERY = re.compile(r"(?<=[?&])(key|access_token)=[^&]*")
_NUMBERED = re.compile(r"(\d+)-")


class Recorder:
    """Writes `00001-request.json` and `00001-response.json` into a folder; numbers go on from those that are there."""

    def __init__(self, folder: str | Path) -> None:
        self._folder = Path(folder)
        self._folder.mkdir(parents=True, exist_ok=True)
        found = (_NUMBERED.match(path.name) for path in self._folder.iterdir())
        self._number = max((int(one[1]) for one in found if one), default=0)
        self._lock = threading.Lock()

    def request(self, request: HttpRequest) -> int:
        """Record a request and return its number."""
        with self._lock:
            self._number += 1
            number = self._number
        held = {
            "time": time.time(),
            "method": request.method,
            "target": _SECRET_QUERY.sub(rf"\1={HIDDEN}", request.target),
            "headers": _without_secrets(request.headers),
            "body": _readable(request.raw),
        }
        self._write(f"{number:05d}-request.json", held)
        return number

    def response(self, number: int, connection: Connection) -> None:
        """Record the newest answer of a connection, as far as it was sent."""
        held = {
            "time": time.time(),
            "status": connection.status,
            "headers": _without_secrets(connection.headers),
            "body": _readable(b"".join(connection.sent)),
        }
        self._write(f"{number:05d}-response.json", held)

    def _write(self, name: str, held: Mapping[str, Any]) -> None:
        (self._folder / name).write_text(json.dumps(held, indent=1, ensure_ascii=False), encoding="utf-8")


def _without_secrets(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: HIDDEN if name.lower() in _SECRET_HEADERS else value for name, value in headers.items()}


def _readable(raw: bytes) -> Any:
    """Return a body as JSON where it is, and as text where it is not."""
    try:
        return json.loads(raw)
    except ValueError:
        return raw.decode("utf-8", "replace")
