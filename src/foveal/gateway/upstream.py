"""Requests to a provider: the client's own headers, and replies as they come."""

import zlib
from collections.abc import AsyncIterable, Iterable, Mapping
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
_DROPPED = _HOP | _OURS
_CHANGED = frozenset(("content-length", "content-encoding"))

TIMEOUT = httpx2.Timeout(600.0, connect=15.0)
"""A model may think for minutes before its first word; a connection that is not there is told at once."""


POOLS = 64
"""Pools of connections. A pool looks at each of its idle connections whenever a request begins or ends: one for all clients
would take longer than everything else that a gateway does."""


class Upstream:
    """The providers behind a gateway."""

    def __init__(self, addresses: Mapping[str, str]) -> None:
        self._addresses = {name: address.rstrip("/") for name, address in addresses.items()}
        self._trust = httpx2.create_ssl_context()
        self._clients: dict[int, httpx2.AsyncClient] = {}

    async def send(
        self,
        provider: str,
        method: str,
        path: str,
        headers: Iterable[tuple[str, str]],
        body: bytes | AsyncIterable[bytes],
        *,
        conversation: str = "",
    ) -> httpx2.Response:
        """Send a request and return the reply before its body is read. Those of one conversation share their connections.

        A body that comes in pieces has the length that the client declared, if it did.
        """
        client = self._client(zlib.crc32(conversation.encode()) % POOLS)
        dropped = _DROPPED if isinstance(body, bytes) else _DROPPED - {"content-length"}
        kept = [(name, value) for name, value in headers if name.lower() not in dropped]
        request = client.build_request(
            method, self._addresses[provider] + path, headers=[*kept, ("accept-encoding", "identity")], content=body
        )
        try:
            return await client.send(request, stream=True)
        except httpx2.InvalidURL as error:  # of a redirect, which nobody follows
            raise httpx2.RemoteProtocolError(f"its redirect has no address: {error}", request=request) from error

    def _client(self, number: int) -> httpx2.AsyncClient:
        if number not in self._clients:
            limits = httpx2.Limits(max_connections=1_000, max_keepalive_connections=20, keepalive_expiry=30.0)
            # No cookies: those of one client would go with the requests of all others.
            jar = CookieJar(DefaultCookiePolicy(allowed_domains=()))
            made = httpx2.AsyncClient(
                timeout=TIMEOUT, limits=limits, follow_redirects=False, cookies=jar, verify=self._trust
            )
            made.headers.clear()  # the client's own headers and no others
            self._clients[number] = made
        return self._clients[number]

    def complaint(self, provider: str, error: Exception) -> str:
        """Return the words for a provider that did not answer: its address, without keys that a query may hold."""
        why = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        address = httpx2.URL(self._addresses[provider]).copy_with(userinfo=b"", query=None)
        advice = f"Check the network, or name another address: --upstream {provider}=URL"
        return f"the gateway got no answer from {address} ({why}). {advice}"

    async def close(self) -> None:
        """Close all connections."""
        for client in self._clients.values():
            await client.aclose()


def reply_headers(response: httpx2.Response, *, is_changed: bool) -> list[tuple[bytes, bytes]]:
    """Return the headers of a reply for the client, without those of the connection and those that a change makes untrue."""
    dropped = _HOP | (_CHANGED if is_changed else frozenset[str]())
    return [
        (name.lower().encode("latin-1"), value.encode("latin-1"))
        for name, value in response.headers.multi_items()
        if name.lower() not in dropped
    ]
