"""Artifacts in an object store: S3 and its kin, Google Cloud Storage, Azure. Folders are kept by `FileArtifacts`, which syncs.

A put makes an object only if there is none, by the provider's own condition. One that is there already and has the same bytes, by
the digest that is kept with it, is not uploaded again; any other one is written over: it is damaged, or under another key. Above
`SPOOL_BYTES`, and where the provider knows no such condition, two puts at the same moment write the same bytes over each other.

The time of a put, by the clock of its process, is kept with the object: the server's own has seconds only. That of a put which
found its bytes, or wrote over others, is kept in an object of its own. A deletion leaves a sign beside the artifact before it
reads these times, and such a put looks for the sign after it has written its own: so one of the two sees the other, and the put
waits and looks again. The sign is made only if there is none, where the provider knows that condition: then two deletions are
never under way.

A process that is killed leaves its sign. Whoever has seen the same sign for longer than a deletion takes removes it: the next
put, the next deletion, or `sweep`. A deletion that took longer than that deletes nothing.
"""

import secrets
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from hashlib import sha256 as new_sha256
from tempfile import SpooledTemporaryFile
from typing import IO, Any, Literal

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError, GenericError, NotSupportedError, PermissionDeniedError
from obstore.store import from_url

from foveal.stores.artifact_card import CardBuilder, check_chunks
from foveal.stores.artifacts import CLAIM
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
_DIGEST = "fovealdigest"
"""The name of the hash of the bytes of an object, which may be another one than that of its name."""
DELETING_S = 10.0
"""Longest wait for a deletion under way: it takes a few requests, unless its process was killed."""
STRAY_MS = 3_600_000
"""Age from which something beside an artifact is of a process that was killed: far more than clocks are apart."""
_SIGN, _TIME, _SIDECAR = "deleting", "put", "offsets"
"""Endings of what lies beside an artifact: the sign of its deletion, the time of its last put, what was derived from it."""
_LOOKS = 4
"""Looks at an artifact that others put and delete at the same moment, before it is written over whatever is there."""

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
        self._has_conditions = True
        """Whether the provider is believed to make an object only if there is none."""
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
            with self._plain_errors(_PUT_AGAIN):
                self._keep(self._path(card.sha256 if name is None else name()), card, spool)
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
        path = self._path(sha256)
        with suppress(BaseError):
            if self._attributes(path) is not None:
                obstore.put(self._objects, self._sidecar(sha256), data)

    def delete(self, sha256: str, *, unless_put_after_ms: int) -> bool:
        path = self._path(sha256)
        with self._plain_errors(_DELETE_AGAIN):
            if self._is_newer(path, unless_put_after_ms) or not self._begin_deletion(path):
                return False
            since_s = time.monotonic()
            try:
                # Whoever waits for a sign that stays for too long takes this process for dead.
                if self._is_newer(path, unless_put_after_ms) or time.monotonic() - since_s >= DELETING_S / 2:
                    return False
                for each in (path, self._sidecar(sha256), self._time(path)):
                    self._remove(each)
            finally:
                self._remove(self._sign(path))
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

    def claim(self, store: str) -> str:
        """Note that a store of this id keeps its artifacts here, if none has yet, and return the id of the one that does."""
        with self._plain_errors(_PUT_AGAIN):
            try:
                return bytes(obstore.get(self._objects, CLAIM).bytes()).decode()
            except FileNotFoundError:
                pass

            def create(mode: Literal["create", "overwrite"] = "create") -> None:
                obstore.put(self._objects, CLAIM, store.encode(), mode=mode)

            if not self._is_made(create) and not self._has_conditions:
                create("overwrite")
            return bytes(obstore.get(self._objects, CLAIM).bytes()).decode()

    def sweep(self) -> None:
        """Remove what dead processes left beside artifacts: signs of deletions, and what belonged to artifacts that are gone."""
        with self._plain_errors(_DELETE_AGAIN):
            pages = obstore.list(self._objects)  # pyright: ignore[reportUnknownMemberType]
            found = {meta["path"]: meta["last_modified"].timestamp() * 1000 for page in pages for meta in page}
            for path, written_ms in found.items():
                artifact, _, kind = path.rpartition(".")
                is_left = kind == _SIGN or (kind in (_TIME, _SIDECAR) and artifact not in found)
                if is_left and is_artifact(artifact.rpartition("/")[2]) and written_ms < _now_ms() - STRAY_MS:
                    self._remove(path)

    def _keep(self, path: str, card: ArtifactCard, spool: IO[bytes]) -> None:
        """Make the object unless one of the same bytes is there. A large one is written over what was made since the last look:
        in parts, so that it is never in memory at once, for which there is no condition."""
        for _ in range(_LOOKS):
            known = self._seen(path)
            if known is None and self._has_conditions and card.size_bytes <= SPOOL_BYTES:
                if self._is_made(lambda: self._upload(path, card, spool, mode="create")):
                    return
                continue
            if known is None or not _is_of(known, card, path):
                self._upload(path, card, spool, mode="overwrite")
            self._write(self._time(path), {_PUT_MS: str(_now_ms())})
            self._await_deletion(path)
            if self._seen(path) is not None:
                return
        self._upload(path, card, spool, mode="overwrite")

    def _is_made(self, create: Callable[[], None]) -> bool:
        """Make an object if there is none, and return whether this call has made it. A provider that knows no such condition
        makes none, and is remembered."""
        try:
            create()
        except AlreadyExistsError:
            return False
        except (NotSupportedError, NotImplementedError):
            self._has_conditions = False
        except GenericError as error:
            if "NotImplemented" not in str(error) and "501" not in _said(error):
                raise
            self._has_conditions = False
        return self._has_conditions

    def _upload(self, path: str, card: ArtifactCard, spool: IO[bytes], *, mode: Literal["create", "overwrite"]) -> None:
        spool.seek(0)
        told = {_PUT_MS: str(_now_ms()), _DIGEST: card.sha256}
        obstore.put(self._objects, path, spool, attributes=told, mode=mode)  # pyright: ignore[reportArgumentType]

    def _attributes(self, path: str) -> dict[str, str] | None:
        """Return the attributes of an object, and its size as `size`; None if it is not there."""
        try:
            found = obstore.get(self._objects, path, options={"head": True})
        except FileNotFoundError:
            return None
        return {**{str(key): value for key, value in found.attributes.items()}, "size": str(found.meta["size"])}

    def _seen(self, path: str) -> dict[str, str] | None:
        """Return the attributes of an object that may not be there; None if there is none that can be seen. Who may not list a
        bucket is refused the look at an object that is not there, and may still put it."""
        with suppress(PermissionDeniedError):
            return self._attributes(path)
        return None

    def _is_newer(self, path: str, limit_ms: int) -> bool:
        """Return whether an object was put later than this moment, or is not there."""
        known = self._attributes(path)
        return known is None or max(_put_ms(known), _put_ms(self._seen(self._time(path)) or {})) > limit_ms

    def _remove(self, path: str) -> None:
        with suppress(FileNotFoundError):
            obstore.delete(self._objects, path)

    def _write(self, path: str, told: dict[str, str], *, mode: Literal["create", "overwrite"] = "overwrite") -> None:
        """Write an object that holds nothing but its attributes."""
        obstore.put(self._objects, path, b"", attributes=told, mode=mode)  # pyright: ignore[reportArgumentType]

    def _begin_deletion(self, path: str) -> bool:
        """Leave the sign of a deletion, and return whether this call has left it: somebody else may be at it."""
        sign, told = self._sign(path), {_PUT_MS: str(_now_ms()), _DIGEST: secrets.token_hex(8)}
        for _ in range(_LOOKS):
            if not self._has_conditions:
                self._write(sign, told)
                return True
            if self._is_made(lambda: self._write(sign, told, mode="create")):
                return True
            self._await_deletion(path)
        return False

    def _await_deletion(self, path: str) -> None:
        """Wait until no deletion of an object is under way. A sign that stays is of a process that was killed, and is removed."""
        sign, since_s = self._sign(path), time.monotonic()
        watched = known = self._seen(sign)
        while known is not None:
            if known != watched:  # one deletion after the other
                watched, since_s = known, time.monotonic()
            if time.monotonic() - since_s >= DELETING_S:
                self._remove(sign)
                return
            time.sleep(0.05)
            known = self._seen(sign)

    def _sign(self, path: str) -> str:
        """Return the path of the object that is there while the one at `path` is being deleted."""
        return f"{path}.{_SIGN}"

    def _time(self, path: str) -> str:
        """Return the path of the object with the time of the last put that found its bytes at `path`."""
        return f"{path}.{_TIME}"

    def _path(self, sha256: str) -> str:
        check_artifact(sha256)
        return f"{sha256[:2]}/{sha256}"

    def _sidecar(self, sha256: str) -> str:
        return f"{self._path(sha256)}.{_SIDECAR}"

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


def _is_of(known: Mapping[str, str], card: ArtifactCard, path: str) -> bool:
    """Return whether an object of these attributes has the bytes of a card. Earlier versions kept no digest: their objects have
    their names, unless they are of a tenant or under keys."""
    digest = known.get(_DIGEST, path.rpartition("/")[2] if _put_ms(known) else None)
    return (known["size"], digest) == (str(card.size_bytes), card.sha256)


def _put_ms(known: Mapping[Any, str]) -> int:
    """Return the time of a put that is in the attributes of an object; 0 if there is none."""
    return int(known.get(_PUT_MS, known.get(_OLD_PUT_MS, 0)))


def _said(error: Exception) -> str:
    """Return the first line of an error of the object store: the rest shows its settings."""
    return str(error).strip().partition("\n")[0][:300]


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
