"""Pages of sessions on this machine: a server on the loopback address, whose address holds a secret.

Other programs of this machine do not know the secret, and pages from elsewhere cannot reach the server under another name:
requests for any other host are refused. Nothing can be changed through it.

    /SECRET/[?budget=N]           the list, or the only session
    /SECRET/events?budget=N       its rows, as they become known (server-sent events)
    /SECRET/3[?budget=N]          a session
    /SECRET/3/events?have=…       its growth, while another process writes it
"""

import re
import secrets
import threading
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl

import msgspec

from foveal.text.display import visible
from foveal.values.errors import FovealError
from foveal.viewer.live import PageGrowth, Possession
from foveal.viewer.page import content_policy
from foveal.viewer.session_pages import BUDGETS, RowEvent, SessionPages

HOST = "127.0.0.1"
_TOKEN_BYTES = 18
"""Random bytes of the secret: as long as those of a session cookie."""
_PAGE = re.compile(r"(?P<list>events)?|(?P<number>[0-9]{1,9})(?P<events>/events)?")
_EVENTS = "text/event-stream"


class PageAnswer(msgspec.Struct, frozen=True):
    """The answer to a request: a body, or a stream of events."""

    status: HTTPStatus
    kind: str
    body: bytes = b""
    events: Iterator[bytes] | None = None


class PageServer(ThreadingHTTPServer):
    """Serves pages under a secret path of the loopback address."""

    daemon_threads = True

    def __init__(self, pages: SessionPages) -> None:
        super().__init__((HOST, 0), _PageRequest)
        self.pages, self.token = pages, secrets.token_urlsafe(_TOKEN_BYTES)
        self.stop = threading.Event()

    @property
    def address(self) -> str:
        return f"http://{HOST}:{self.server_port}/{self.token}/"

    def answer(self, host: str, target: str) -> PageAnswer:
        """Return the answer to a request."""
        if host not in (f"{HOST}:{self.server_port}", f"localhost:{self.server_port}"):
            return _plain(HTTPStatus.FORBIDDEN, "this server answers for its own address only")
        path, _, query = target.partition("?")
        token, _, name = path.removeprefix("/").partition("/")
        asked = _PAGE.fullmatch(name)
        if not secrets.compare_digest(token.encode(), self.token.encode()) or asked is None:
            return _plain(HTTPStatus.NOT_FOUND, "there is no page here; open the address that `foveal view` printed")
        fields = dict(parse_qsl(query))
        try:
            return self._found(asked["number"], bool(asked["list"] or asked["events"]), fields)
        except IndexError:
            return _plain(HTTPStatus.NOT_FOUND, "there is no such session")
        except FovealError as error:
            return _plain(HTTPStatus.INTERNAL_SERVER_ERROR, visible(str(error)))

    def _found(self, number: str | None, has_events: bool, fields: Mapping[str, str]) -> PageAnswer:
        budget = _budget(fields.get("budget", ""))
        if has_events and number is None:
            return PageAnswer(HTTPStatus.OK, _EVENTS, events=map(_event, self.pages.list_events(budget, self.stop)))
        if has_events:
            had = Possession.read(fields.get("have", ""))
            if had is None:
                return _plain(HTTPStatus.BAD_REQUEST, "have= names the parts of the session that the page has")
            growth = self.pages.session_events(int(number or 0), had, self.stop)
            return PageAnswer(HTTPStatus.OK, _EVENTS, events=map(_event, growth))
        body = self.pages.first(budget) if number is None else self.pages.session(int(number), budget)
        return PageAnswer(HTTPStatus.OK, "text/html", body)


def _plain(status: HTTPStatus, text: str) -> PageAnswer:
    return PageAnswer(status, "text/plain", f"{text}\n".encode())


def _budget(text: str) -> int:
    """Return the budget that a request names, if lists can be asked for it; 0 otherwise."""
    return int(text) if text.isdecimal() and len(text) < 10 and int(text) in BUDGETS else 0


def _event(value: RowEvent | PageGrowth | str | None) -> bytes:
    """Return a server-sent event; a comment as a sign of life."""
    match value:
        case None:
            return b": still here\n\n"
        case str():
            return f"event: {value}\ndata: {{}}\n\n".encode()
        case _:
            return b"data: " + msgspec.json.encode(value) + b"\n\n"


@contextmanager
def opened_server(pages: SessionPages) -> Generator[PageServer]:
    """Yield a server that answers in the background until the block ends."""
    with PageServer(pages) as server:
        threads = [
            threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True),
            threading.Thread(target=pages.work, args=(server.stop,), daemon=True),
        ]
        for thread in threads:
            thread.start()
        try:
            yield server
        finally:
            server.stop.set()
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
        answer = self.server.answer(self.headers.get("host", ""), self.path)
        self.send_response(answer.status)
        headers = {
            "content-type": f"{answer.kind}; charset=utf-8",
            "content-security-policy": f"{content_policy(is_served=True)}; frame-ancestors 'none'",
            "cache-control": "no-store",
            "referrer-policy": "no-referrer",
            "x-content-type-options": "nosniff",
            "cross-origin-resource-policy": "same-origin",
        }
        if answer.events is None:
            headers["content-length"] = str(len(answer.body))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if not has_body:
            return
        with suppress(ConnectionError):  # the reader has gone
            self.wfile.write(answer.body)
            for event in answer.events or ():
                self.wfile.write(event)
                self.wfile.flush()
