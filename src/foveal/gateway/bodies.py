"""Bodies of requests: read up to a limit, or passed on piece by piece."""

from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.requests import Request

MOST_BODY_MB = 128
"""Megabytes of a request with a conversation: four times the 32 that Anthropic takes."""

SMALL_BYTES = 1 << 20
"""Bytes of a body that is held in memory where it need not be read."""

MEGABYTE = 1_000_000

CLIENT_GONE = 499
"""The status, which nobody gets, of a request whose client hung up before its body was whole. It is what other servers note."""


class BodyTooLarge(Exception):
    """A body is larger than the limit. What it says is for the client."""

    def __init__(self, most_mb: int) -> None:
        super().__init__(
            f"the request has more than {most_mb:,} MB, which is the most that this gateway reads; raise it with "
            "--max-body MB, or send less"
        )


async def read_body(request: "Request", most_mb: int) -> bytes:
    """Return the body of a request; raise `BodyTooLarge` as soon as it is."""
    most = most_mb * MEGABYTE
    if declared_bytes(request) > most:
        raise BodyTooLarge(most_mb)
    size, pieces = 0, list[bytes]()
    async for piece in request.stream():
        size += len(piece)
        if size > most:
            raise BodyTooLarge(most_mb)
        pieces.append(piece)
    return b"".join(pieces)


def is_small(request: "Request") -> bool:
    """Return whether the body of a request is declared as small, or there is none."""
    return "transfer-encoding" not in request.headers and declared_bytes(request) <= SMALL_BYTES


def declared_bytes(request: "Request") -> int:
    """Return the length that a request declares for its body; 0 if it declares none."""
    declared = request.headers.get("content-length", "")
    return int(declared) if declared.isascii() and declared.isdecimal() else 0


async def body_pieces(request: "Request") -> AsyncGenerator[bytes]:
    """Yield the body of a request as it comes."""
    async for piece in request.stream():
        if piece:
            yield piece
