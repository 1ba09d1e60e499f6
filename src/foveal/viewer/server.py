"""Pages of sessions on this machine: a server on the loopback address, whose address holds a secret.

Other programs of this machine do not know the secret, and pages from elsewhere cannot reach the server under another name:
requests for any other host are refused. Nothing can be changed through it.
"""

import secrets
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import msgspec

from foveal.text.display import visible
from foveal.values.errors import FovealError
from foveal.viewer.choices import SessionChoice
from foveal.viewer.document import OverviewRow, PageOverview
from foveal.viewer.page import content_policy, page

HOST = "127.0.0.1"
_TOKEN_BYTES = 18
"""Random bytes of the secret: as long as those of a session cookie."""


class SessionPages:
    """The list of the choices and the page of each, built when it is asked for. May be used by many threads."""

    def __init__(self, choices: Sequence[SessionChoice], *, title: str, sent_as: str = "sent", note: str = "") -> None:
        self._choices, self._overview = choices, PageOverview(title, (), sent_as=sent_as, note=note)
        self._rows = [msgspec.structs.replace(choice.row, href=str(i)) for i, choice in enumerate(choices)]
        self._waiting = {i for i, choice in enumerate(choices) if choice.is_fixed and not choice.row.error}
        self._pages: dict[int, bytes] = {}
        self._lock = threading.Lock()

    def first(self) -> bytes:
        """Return the page that opens first: the list, or the only session."""
        if len(self._choices) == 1:
            return self.session(0)
        rows, waiting = tuple(self._rows), len(self._waiting)
        return page((), msgspec.structs.replace(self._overview, sessions=rows, waiting=waiting))

    def session(self, number: int) -> bytes:
        """Return the page of a session; raise its error if it cannot be built, `IndexError` if there is none."""
        choice = self._choices[number]
        with self._lock:
            if number in self._pages:
                return self._pages[number]
            try:
                built = choice.build()
            except FovealError as error:
                self._rows[number] = msgspec.structs.replace(self._rows[number], error=visible(str(error)))
                raise
            finally:
                self._waiting.discard(number)
            self._rows[number] = msgspec.structs.replace(choice.built_row(built), href=str(number))
            row: OverviewRow = msgspec.structs.replace(self._rows[number], href="")
            home = "./" if len(self._choices) > 1 else ""
            made = page([built], msgspec.structs.replace(self._overview, sessions=(row,), home=home))
            if choice.is_fixed:
                self._pages[number] = made
            return made

    def build_all(self, stop: threading.Event) -> None:
        """Build the pages that never change one after the other, so that the list has their bills; end early if told to."""
        for number in sorted(self._waiting):
            if stop.is_set():
                return
            try:
                self.session(number)
            except FovealError:
                continue  # its row says why


class PageServer(ThreadingHTTPServer):
    """Serves pages under a secret path of the loopback address."""

    daemon_threads = True

    def __init__(self, pages: SessionPages) -> None:
        super().__init__((HOST, 0), _PageRequest)
        self.pages, self.token = pages, secrets.token_urlsafe(_TOKEN_BYTES)

    @property
    def address(self) -> str:
        return f"http://{HOST}:{self.server_port}/{self.token}/"

    def answer(self, host: str, path: str) -> tuple[HTTPStatus, str, bytes]:
        """Return the answer to a request: its status, its media type and its body."""
        if host not in (f"{HOST}:{self.server_port}", f"localhost:{self.server_port}"):
            return HTTPStatus.FORBIDDEN, "text/plain", b"this server answers for its own address only\n"
        token, _, name = path.partition("?")[0].removeprefix("/").partition("/")
        if not secrets.compare_digest(token.encode(), self.token.encode()) or (name and not name.isdecimal()):
            return (
                HTTPStatus.NOT_FOUND,
                "text/plain",
                b"there is no page here; open the address that `foveal view` printed\n",
            )
        try:
            return HTTPStatus.OK, "text/html", self.pages.session(int(name[:9])) if name else self.pages.first()
        except IndexError:
            return HTTPStatus.NOT_FOUND, "text/plain", b"there is no such session\n"
        except FovealError as error:
            return HTTPStatus.INTERNAL_SERVER_ERROR, "text/plain", f"{visible(str(error))}\n".encode()


@contextmanager
def opened_server(pages: SessionPages) -> Generator[PageServer]:
    """Yield a server that answers in the background until the block ends."""
    stop = threading.Event()
    with PageServer(pages) as server:
        threads = [
            threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True),
            threading.Thread(target=pages.build_all, args=(stop,), daemon=True),
        ]
        for thread in threads:
            thread.start()
        try:
            yield server
        finally:
            stop.set()
            server.shutdown()


class _PageRequest(BaseHTTPRequestHandler):
    """One request. Only reading is answered."""

    server: PageServer  # pyright: ignore[reportIncompatibleVariableOverride]
    server_version, sys_version = "foveal", ""
    timeout = 30

    def do_GET(self) -> None:
        self._send(has_body=True)

    def do_HEAD(self) -> None:
        self._send(has_body=False)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the library's own name
        """Write nothing: the address holds the secret."""

    def _send(self, *, has_body: bool) -> None:
        status, kind, body = self.server.answer(self.headers.get("host", ""), self.path)
        self.send_response(status)
        headers = {
            "content-type": f"{kind}; charset=utf-8",
            "content-length": str(len(body)),
            "content-security-policy": f"{content_policy()}; frame-ancestors 'none'",
            "cache-control": "no-store",
            "referrer-policy": "no-referrer",
            "x-content-type-options": "nosniff",
            "cross-origin-resource-policy": "same-origin",
        }
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if has_body:
            self.wfile.write(body)
