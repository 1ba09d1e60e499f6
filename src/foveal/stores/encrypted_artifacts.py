"""Artifacts that are encrypted, each under a data key of its own.

An artifact begins with its own data key, wrapped, and goes on in segments, each encrypted under that key with its number: so a
span is read and proven alone, and a segment that is missing, moved or cut off is found.
"""

import secrets
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import NamedTuple

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from foveal.stores.artifact_card import CardBuilder, counted
from foveal.stores.keys import KEY_BYTES, NONCE_BYTES, Keys
from foveal.stores.port import ArtifactCard, Artifacts, KeptArtifact
from foveal.stores.tenants import TenantArtifacts, proven
from foveal.values.errors import NotFound, StoreCorrupt, StoreError

SEGMENT_BYTES = 1 << 16
"""Plain bytes of a segment: what a span reads at least."""
_TAG_BYTES = 16
_LENGTH_BYTES = 2
_CONTEXT = b"foveal artifact"
_MOST_WRAPPED_BYTES = 450
"""Bytes of a wrapped key, as `Keys.wrap` may return them."""
_SEALED = "\0sealed"
"""After the name of a tenant, which cannot hold it: its artifacts under keys do not take the names of those in the clear."""


class _Header(NamedTuple):
    cipher: AESGCM
    size: int
    """Bytes before the first segment."""


def sealed_places(shelf: Artifacts, owner: str | None, keys: Keys) -> list[Artifacts]:
    """Return the places of the encrypted artifacts of a tenant, or of no tenant: the one that they are put into, and the one of
    earlier versions, which gave those of a tenant the names of its artifacts in the clear."""
    names = [""] if owner is None else [owner + _SEALED, owner]
    return [EncryptedArtifacts(TenantArtifacts(shelf, name), keys) for name in names]


class EncryptedArtifacts:
    """Artifacts whose bytes another place keeps, under the names of the plain bytes."""

    def __init__(self, inner: Artifacts, keys: Keys) -> None:
        self._inner, self._keys = inner, keys

    def put(self, chunks: Iterable[bytes], *, name: Callable[[], str] | None = None) -> ArtifactCard:
        tally = CardBuilder()
        named = name or (lambda: tally.card().sha256)
        self._inner.put(_encrypted(counted(chunks, tally), self._keys), name=named)
        return tally.card()

    def read(self, sha256: str) -> Iterator[bytes]:
        self.span(sha256, 0, 0)  # `NotFound` at once
        return proven(self, sha256)

    def span(self, sha256: str, start: int, size: int) -> bytes:
        header = self._header(sha256)
        first, last = start // SEGMENT_BYTES, max(start + size - 1, start) // SEGMENT_BYTES
        stride = SEGMENT_BYTES + _TAG_BYTES
        wanted = last - first + 1
        data = self._inner.span(sha256, header.size + first * stride, wanted * stride)
        pieces = [data[at : at + stride] for at in range(0, len(data), stride)]
        is_end = len(data) < wanted * stride  # then the last piece must say that it is the last
        plain = b"".join(
            self._segment(header.cipher, first + at, piece, sha256, is_end=is_end and at == len(pieces) - 1)
            for at, piece in enumerate(pieces)
        )
        skip = start - first * SEGMENT_BYTES
        return plain[skip : skip + max(size, 0)]

    def sidecar(self, sha256: str) -> bytes | None:
        kept = self._inner.sidecar(sha256)
        if kept is None:
            return None
        with suppress(InvalidTag, StoreError, NotFound):
            return self._header(sha256).cipher.decrypt(kept[:NONCE_BYTES], kept[NONCE_BYTES:], b"sidecar")
        return None

    def write_sidecar(self, sha256: str, data: bytes) -> None:
        nonce = b"\xff" + secrets.token_bytes(NONCE_BYTES - 1)  # no segment has one that begins so
        with suppress(NotFound, StoreError):
            sealed = nonce + self._header(sha256).cipher.encrypt(nonce, data, b"sidecar")
            self._inner.write_sidecar(sha256, sealed)

    def delete(self, sha256: str, *, unless_put_after_ms: int) -> bool:
        return self._inner.delete(sha256, unless_put_after_ms=unless_put_after_ms)

    def kept(self, sha256: str) -> tuple[KeptArtifact, ...]:
        return self._inner.kept(sha256)

    def _header(self, name: str) -> _Header:
        length = int.from_bytes(self._inner.span(name, 0, _LENGTH_BYTES))
        if length > _MOST_WRAPPED_BYTES:
            raise NotFound(f"there is no artifact {name} under keys: the one of this name is in the clear")
        wrapped = self._inner.span(name, _LENGTH_BYTES, length)
        return _Header(AESGCM(self._keys.unwrap(wrapped, _CONTEXT)), _LENGTH_BYTES + length)

    def _segment(self, cipher: AESGCM, number: int, data: bytes, sha256: str, *, is_end: bool) -> bytes:
        for is_last in (True,) if is_end else (False, True):
            with suppress(InvalidTag):
                return cipher.decrypt(_nonce(number, is_last=is_last), data, None)
        raise StoreCorrupt(f"artifact {sha256}", f"its segment {number + 1} was changed or cut off")


def _encrypted(chunks: Iterable[bytes], keys: Keys) -> Iterator[bytes]:
    """Yield the header and the segments of an artifact. The last segment, and no other, is known as such by its nonce."""
    key = secrets.token_bytes(KEY_BYTES)
    wrapped, cipher = keys.wrap(key, _CONTEXT), AESGCM(key)
    yield len(wrapped).to_bytes(_LENGTH_BYTES) + wrapped
    rest, number = bytearray(), 0
    for chunk in chunks:
        rest += chunk
        while len(rest) > SEGMENT_BYTES:
            yield cipher.encrypt(_nonce(number, is_last=False), bytes(rest[:SEGMENT_BYTES]), None)
            del rest[:SEGMENT_BYTES]
            number += 1
    yield cipher.encrypt(_nonce(number, is_last=True), bytes(rest), None)


def _nonce(number: int, *, is_last: bool) -> bytes:
    return bytes([is_last]) + number.to_bytes(NONCE_BYTES - 1)
