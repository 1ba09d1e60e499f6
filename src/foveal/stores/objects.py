"""Artifacts in an object store: S3 and its kin, Google Cloud Storage, Azure. Folders are kept by `FileArtifacts`, which syncs.

A put writes over an object of the same name, which has the same bytes or is damaged: so a put heals, and is the newest one if a
deletion is under way. The time of a put, by the clock of its process, is kept with the object: the server's own has seconds only.
"""

import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256 as new_sha256
from tempfile import SpooledTemporaryFile

import obstore
from obstore.exceptions import BaseError
from obstore.store import from_url

from foveal.stores.artifact_card import CardBuilder, check_chunks
from foveal.stores.checks import check_artifact, check_span, is_artifact
from foveal.stores.place import without_secrets
from foveal.stores.port import ArtifactCard, KeptArtifact
from foveal.values.errors import BadInput, NotFound, StoreCorrupt, StoreError, StoreUnavailable

SPOOL_BYTES = 8 << 20
"""Bytes of an artifact that are held in memory before it goes to a temporary file: its name is known at its end."""
READ_BYTES = 1 << 20
_PUT_MS = "fovealputms"
"""The name of the time of a put: of letters alone, since Azure allows no hyphen in it and proxies drop headers with a _."""
_OLD_PUT_MS = "foveal-put-ms"

_PUT_AGAIN = "Nothing names it yet: put it again"
_READ_AGAIN = "Nothing was changed: read it again; if that was refused, see whether these credentials may read there"
_DELETE_AGAIN = (
    "It may still be there: delete it again; if that was refused, see whether these credentials may delete there"
)


class ObjectArtifacts:
    """Artifacts in a bucket. Credentials and region come from the environment, as for the provider's own tools."""

    def __init__(self, url: str) -> None:
        self.place = without_secrets(url)
        """The place for people: without whatever was secret in the address."""
        try:
            self._objects = from_url(url)
        except (BaseError, ValueError) as error:
            raise BadInput(f"{self.place} cannot be used for artifacts: {_said(error)}") from None

    def put(self, chunks: Iterable[bytes], *, name: Callable[[], str] | None = None) -> ArtifactCard:
        tally = CardBuilder()
        with SpooledTemporaryFile[bytes](SPOOL_BYTES) as spool:
            for chunk in check_chunks(chunks):
                tally.add(chunk)
                spool.write(chunk)
            card = tally.card()
            spool.seek(0)
            place = self._path(card.sha256 if name is None else name())
            with self._plain_errors(_PUT_AGAIN):
                # In pieces, so that a large artifact is never in memory at once.
                obstore.put(self._objects, place, spool, attributes={_PUT_MS: str(_now_ms())})  # pyright: ignore[reportArgumentType]
        return card

    def read(self, sha256: str) -> Iterator[bytes]:
        path = self._path(sha256)
        with self._plain_errors(_READ_AGAIN, sha256):
            found = obstore.get(self._objects, path)
        return self._stream(found, sha256)

    def span(self, sha256: str, start: int, size: int) -> bytes:
        path = self._path(sha256)
        check_span(start)
        with self._plain_errors(_READ_AGAIN, sha256):
            length = obstore.head(self._objects, path)["size"] - start
            if length <= 0 or size <= 0:
                return b""
            return bytes(obstore.get_range(self._objects, path, start=start, length=min(size, length)))

    def sidecar(self, sha256: str) -> bytes | None:
        path = self._sidecar(sha256)
        with suppress(BaseError, FileNotFoundError):
            return bytes(obstore.get(self._objects, path).bytes())
        return None

    def write_sidecar(self, sha256: str, data: bytes) -> None:
        path = self._sidecar(sha256)
        with suppress(BaseError):
            obstore.put(self._objects, path, data)

    def delete(self, sha256: str, *, unless_put_after_ms: int) -> bool:
        path = self._path(sha256)
        try:
            with self._plain_errors(_DELETE_AGAIN, sha256):
                known = obstore.get(self._objects, path, options={"head": True}).attributes
                put_ms = int(known.get(_PUT_MS, known.get(_OLD_PUT_MS, 0)))
                if put_ms > unless_put_after_ms:
                    return False
                obstore.delete(self._objects, path)
        except NotFound:
            return False
        with suppress(FileNotFoundError), self._plain_errors(_DELETE_AGAIN):
            obstore.delete(self._objects, self._sidecar(sha256))
        return True

    def kept(self, sha256: str) -> tuple[KeptArtifact, ...]:
        check_artifact(sha256)
        return (KeptArtifact(sha256, self),)

    def names(self) -> list[str]:
        """Return the names of all artifacts that are there."""
        with self._plain_errors(_READ_AGAIN):
            pages = obstore.list(self._objects)  # pyright: ignore[reportUnknownMemberType]
            paths = [meta["path"] for page in pages for meta in page]
        return sorted(name for path in paths if is_artifact(name := path.rpartition("/")[2]))

    def _path(self, sha256: str) -> str:
        check_artifact(sha256)
        return f"{sha256[:2]}/{sha256}"

    def _sidecar(self, sha256: str) -> str:
        return f"{self._path(sha256)}.offsets"

    def _stream(self, found: "obstore.GetResult", name: str) -> Iterator[bytes]:
        digest, held_back = new_sha256(), b""
        pieces = iter(found.stream(min_chunk_size=READ_BYTES))
        while True:
            with self._plain_errors(_READ_AGAIN, name):
                piece = next(pieces, None)
            if piece is None:
                break
            digest.update(piece)
            if held_back:
                yield held_back
            held_back = bytes(piece)  # the last one is given only once the whole is proven
        if digest.hexdigest() != name:
            what = f"the bytes in {self.place} do not match the hash"
            raise StoreCorrupt(
                f"artifact {name}", what, "postgresql://…"
            )  # of all stores, these alone keep artifacts here
        if held_back:
            yield held_back

    @contextmanager
    def _plain_errors(self, advice: str, sha256: str = "") -> Generator[None]:
        try:
            yield
        except FileNotFoundError as error:
            if not sha256:  # a bucket that is not there
                raise StoreError(f"{self.place} cannot be used for artifacts: {_said(error)}") from error
            raise NotFound(f"there is no artifact {sha256} in {self.place}. If a log names it, it was lost.") from None
        except BaseError as error:
            raise StoreUnavailable(f"{self.place} did not answer for an artifact: {_said(error)}. {advice}.") from error


def _said(error: Exception) -> str:
    """Return the first line of an error of the object store: the rest shows its settings."""
    return str(error).strip().partition("\n")[0][:300]


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
