"""The command line of Foveal with a tap on its gateway: every exchange is kept as files, as the client and the provider saw it.

    FOVEAL_TAP=FOLDER python tap.py wrap claude -- …

`00001-asked` is the client's body, `00001-sent-1` the first one that went to the provider for it, `00001-told` the answer that
the client got, and `00001.json` says the rest, with the processor time of the whole process before and after.
"""

import json
import os
import sys
import time
from contextvars import ContextVar
from itertools import count
from pathlib import Path
from typing import Any

import foveal.gateway.app as gateway_app
from foveal.cli import main
from foveal.gateway.upstream import Upstream


class ExchangeTap:
    """Writes the exchanges of a gateway into a folder; numbers go on from those that are there."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._numbers = count(1 + max((int(path.name[:5]) for path in folder.iterdir()), default=0))
        self._current: ContextVar[tuple[str, Any] | None] = ContextVar("current", default=None)

    def upstream(self, send: Any) -> Any:
        """Return the method that sends to providers, tapped."""

        async def tapped(own: Upstream, *args: Any, **more: Any) -> Any:
            if (current := self._current.get()) and isinstance(args[-1], bytes):  # uploads come in pieces
                name, numbers = current
                (self._folder / f"{name}-sent-{next(numbers)}").write_bytes(args[-1])
            return await send(own, *args, **more)

        return tapped

    def app(self, inner: Any) -> Any:
        """Return an ASGI application, tapped."""

        async def tapped(scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] not in ("http", "websocket"):
                await inner(scope, receive, send)
                return
            name = f"{next(self._numbers):05d}"
            self._current.set((name, count(1)))
            headers = {key.decode("latin-1"): value.decode("latin-1") for key, value in scope["headers"]}
            facts: dict[str, Any] = {
                "method": scope.get("method", "GET"),
                "path": scope["path"],
                "is_upgrade": headers.get("upgrade", "").lower() == "websocket",
                "status": 0,
                "is_whole": False,
                "cpu_before": time.process_time(),
            }
            asked, told = bytearray(), bytearray()

            async def hear() -> Any:
                message = await receive()
                if message["type"] == "http.request":
                    asked.extend(message.get("body", b""))
                    if not message.get("more_body"):
                        (self._folder / f"{name}-asked").write_bytes(asked)
                return message

            async def say(message: Any) -> None:
                if "status" in message:
                    facts["status"] = message["status"]
                told.extend(message.get("body", b""))
                facts["is_whole"] = message["type"].endswith(".body") and not message.get("more_body")
                await send(message)

            try:
                await inner(scope, hear, say)
            finally:
                facts["cpu_after"] = time.process_time()
                (self._folder / f"{name}-told").write_bytes(told)
                (self._folder / f"{name}.json").write_text(json.dumps(facts))

        return tapped


def tap(folder: Path) -> None:
    """Put a tap on every gateway that this process makes."""
    tapped = ExchangeTap(folder)
    Upstream.send = tapped.upstream(Upstream.send)

    class TappedGateway(gateway_app.Gateway):
        def __init__(self, *args: Any, **more: Any) -> None:
            super().__init__(*args, **more)
            self.app = tapped.app(self.app)

    gateway_app.Gateway = TappedGateway


if __name__ == "__main__":
    tap(Path(os.environ["FOVEAL_TAP"]))
    sys.exit(main())
