"""Requests to a provider: the client's own headers, and replies as they come."""

from collections.abc import Iterable, Mapping
from http.cookiejar import CookieJar, DefaultCookiePolicy

import httpx2

_HOP = frozenset(
    (
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    )
)
_OURS = frozenset(("host", "content-length", "accept-encoding", "x-foveal-session", "x-foveal-token"))
_CHANGED = frozenset(("content-length", "content-encoding"))

TIMEOUT = httpx2.Timeout(600.0, connect=15.0)
"""A model may think for minutes before its first word; a connection that is not there is told at once."""


class Upstream:
    """The providers behind a gateway."""

    def __init__(self, addresses: Mapping[str, str], client: httpx2.AsyncClient | None = None) -> None:
        self._addresses = {name: address.rstrip("/") for name, address in addresses.items()}
        limits = httpx2.Limits(max_connections=1_000, max_keepalive_connections=100, keepalive_expiry=30.0)
        # No cookies: those of one client would go with the requests of all others.
        jar = CookieJar(DefaultCookiePolicy(allowed_domains=()))
        self._client = client or httpx2.AsyncClient(timeout=TIMEOUT, limits=limits, follow_redirects=False, cookies=jar)
        self._client.headers.clear()  # the client's own headers and no others

    async def send(
        self, provider: str, method: str, path: str, headers: Iterable[tuple[str, str]], body: bytes
    ) -> httpx2.Response:
        """Send a request and return the reply before its body is read."""
        kept = [(name, value) for name, value in headers if name.lower() not in _HOP | _OURS]
        request = self._client.build_request(
            method, self._addresses[provider] + path, headers=[*kept, ("accept-encoding", "identity")], content=body
        )
        return await self._client.send(request, stream=True)

    def complaint(self, provider: str, error: Exception) -> str:
        """Return the words for a provider that did not answer: its address, without keys that a query may hold."""
        why = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        address = httpx2.URL(self._addresses[provider]).copy_with(userinfo=b"", query=None)
        return f"the gateway got no answer from {address} ({why}). Check the network, and the upstream that {provider} is set to."

    async def close(self) -> None:
        """Close all connections."""
        await self._client.aclose()


def reply_headers(response: httpx2.Response, *, is_changed: bool) -> list[tuple[bytes, bytes]]:
    """Return the headers of a reply for the client, without those of the connection and those that a change makes untrue."""
    dropped = _HOP | (_CHANGED if is_changed else frozenset[str]())
    return [
        (name.lower().encode("latin-1"), value.encode("latin-1"))
        for name, value in response.headers.multi_items()
        if name.lower() not in dropped
    ]
