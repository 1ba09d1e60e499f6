"""Artifacts in PostgreSQL: pieces of equal size under a number of their own, and a name for the number once all are there.

The name is the hash of the bytes and so is known at the end: pieces without a name are uploads under way, or left by a process
that died, and `sweep` removes the latter. A piece is found by its place, so that a span reads no more than it shows.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from hashlib import sha256 as new_sha256

import psycopg

from foveal.stores.artifact_card import CardBuilder, check_chunks
from foveal.stores.checks import check_artifact, check_span
from foveal.stores.port import ArtifactCard, KeptArtifact
from foveal.stores.postgres.connections import Connections
from foveal.values.errors import NotFound, StoreCorrupt, StoreError

CHUNK_BYTES = 1 << 18
"""Size of a piece: as much as files are read at a time."""

STRAY_MS = 24 * 3_600_000
"""Age of pieces without a name after which their upload is taken for dead: far longer than any takes."""

_ADD = "INSERT INTO @chunks VALUES (%s, %s, %s, %b) ON CONFLICT DO NOTHING"
_NAME = (
    "WITH old AS (SELECT body FROM @artifacts WHERE sha256 = %(sha)s FOR UPDATE), named AS (INSERT INTO @artifacts"
    " (sha256, body, size, put_ms) VALUES (%(sha)s, %(body)s, %(size)s, %(now)s) ON CONFLICT (sha256) DO UPDATE"
    " SET body = excluded.body, put_ms = excluded.put_ms) DELETE FROM @chunks WHERE body IN (SELECT body FROM old)"
    " AND body <> %(body)s"
)
_DELETE = (
    "WITH gone AS (DELETE FROM @artifacts WHERE sha256 = %s AND put_ms <= %s RETURNING body), pieces AS (DELETE FROM @chunks"
    " WHERE body IN (SELECT body FROM gone)) SELECT body FROM gone"
)
_PIECES = (
    "SELECT c.number, c.data FROM @artifacts a JOIN @chunks c USING (body) WHERE a.sha256 = %s AND c.number BETWEEN %s AND %s"
    " ORDER BY c.number"
)


class PostgresArtifacts:
    """Artifacts in the database of the logs that name them."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def put(self, chunks: Iterable[bytes], *, name: Callable[[], str] | None = None) -> ArtifactCard:
        body = self._connections.run(lambda link: link.ask("SELECT nextval('@bodies')"))[0][0]
        tally = CardBuilder()
        try:
            for number, piece in enumerate(_pieces(check_chunks(chunks), tally)):
                added = (body, number, _now_ms(), piece)
                self._connections.run(lambda link, added=added: link.ask(_ADD, added))
            card = tally.card()
            sha256 = card.sha256 if name is None else name()
            check_artifact(sha256)
        except BaseException:
            with (
                suppress(psycopg.Error, StoreError),
                self._connections.link() as link,
            ):  # else `sweep` removes the pieces
                link.ask("DELETE FROM @chunks WHERE body = %s", (body,))
            raise
        row = {"sha": bytes.fromhex(sha256), "body": body, "size": card.size_bytes, "now": _now_ms()}
        self._connections.run(lambda link: link.ask(_NAME, row))
        return card

    def read(self, sha256: str) -> Iterator[bytes]:
        return self._stream(sha256, self._size(sha256))

    def span(self, sha256: str, start: int, size: int) -> bytes:
        check_span(start)
        if start >= self._size(sha256) or size <= 0:
            return b""
        first, last = start // CHUNK_BYTES, (start + size - 1) // CHUNK_BYTES
        found = self._connections.run(lambda link: link.ask(_PIECES, (bytes.fromhex(sha256), first, last)))
        skip = start - first * CHUNK_BYTES
        return b"".join(data for _, data in found)[skip : skip + size]

    def sidecar(self, sha256: str) -> bytes | None:
        check_artifact(sha256)
        query = "SELECT sidecar FROM @artifacts WHERE sha256 = %s"
        found = self._connections.run(lambda link: link.ask(query, (bytes.fromhex(sha256),)))
        return found[0][0] if found else None

    def write_sidecar(self, sha256: str, data: bytes) -> None:
        check_artifact(sha256)
        update = "UPDATE @artifacts SET sidecar = %b WHERE sha256 = %s"
        with suppress(StoreError):
            self._connections.run(lambda link: link.ask(update, (data, bytes.fromhex(sha256))))

    def delete(self, sha256: str, *, unless_put_after_ms: int) -> bool:
        check_artifact(sha256)
        given = (bytes.fromhex(sha256), unless_put_after_ms)
        return bool(self._connections.run(lambda link: link.ask(_DELETE, given)))

    def kept(self, sha256: str) -> tuple[KeptArtifact, ...]:
        check_artifact(sha256)
        return (KeptArtifact(sha256, self),)

    def names(self) -> list[str]:
        """Return the names of all artifacts that are there."""
        return [raw[0].hex() for raw in self._connections.run(lambda link: link.ask("SELECT sha256 FROM @artifacts"))]

    def sweep(self) -> None:
        """Remove the pieces that dead writers left behind."""
        stray = (
            "DELETE FROM @chunks c WHERE made_ms < %s AND NOT EXISTS (SELECT FROM @artifacts a WHERE a.body = c.body)"
        )
        self._connections.run(lambda link: link.ask(stray, (_now_ms() - STRAY_MS,)))

    def _size(self, sha256: str) -> int:
        check_artifact(sha256)
        query = "SELECT size FROM @artifacts WHERE sha256 = %s"
        found = self._connections.run(lambda link: link.ask(query, (bytes.fromhex(sha256),)))
        if not found:
            raise NotFound(f"there is no artifact {sha256} in {self._connections.place}")
        return found[0][0]

    def _stream(self, name: str, size: int) -> Iterator[bytes]:
        digest, held_back = new_sha256(), b""
        for number in range(-(-size // CHUNK_BYTES)):
            # By name each time: the same bytes may have been put again under another number.
            pieces = self._connections.run(lambda link, at=number: link.ask(_PIECES, (bytes.fromhex(name), at, at)))
            digest.update(pieces[0][1] if pieces else b"")
            if held_back:
                yield held_back
            held_back = pieces[0][1] if pieces else b""
        if digest.hexdigest() != name:
            place = self._connections.place
            raise StoreCorrupt(f"artifact {name}", f"the bytes in {place} do not match the hash", place)
        if held_back:
            yield held_back


def _pieces(chunks: Iterable[bytes], tally: CardBuilder) -> Iterator[bytes]:
    """Yield the bytes of the chunks in pieces of equal size, but for the last."""
    rest = bytearray()
    for chunk in chunks:
        tally.add(chunk)
        rest += chunk
        while len(rest) >= CHUNK_BYTES:
            yield bytes(rest[:CHUNK_BYTES])
            del rest[:CHUNK_BYTES]
    if rest:
        yield bytes(rest)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
