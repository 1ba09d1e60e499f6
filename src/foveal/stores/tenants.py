"""Tenants: the names that their sessions and artifacts have in a store that they share.

A session of the tenant `acme` is `@acme:NAME` there. Its artifacts are named by a hash of the tenant and of their bytes, so that
no tenant reads, replaces or deletes those of another one that has the same bytes.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from hashlib import sha256 as new_sha256

from foveal.stores.artifact_card import CardBuilder, counted
from foveal.stores.checks import check_artifact
from foveal.stores.port import ArtifactCard, Artifacts, KeptArtifact
from foveal.values.errors import BadInput, StoreCorrupt

_TENANT = re.compile(r"[A-Za-z0-9._-]{1,64}")
_SESSION = re.compile(rf"@({_TENANT.pattern}):.*", re.DOTALL)
_READ_BYTES = 1 << 18


def tenant_prefix(tenant: str | None) -> str:
    """Return the beginning of all names of a tenant; `BadInput` if it cannot be a tenant."""
    if tenant is None:
        return ""
    if not _TENANT.fullmatch(tenant):
        raise BadInput(
            f"{tenant!r:.80} cannot name a tenant; give 1 to 64 letters, digits, dots, hyphens and underscores"
        )
    return f"@{tenant}:"


def owners_of(session: str) -> tuple[str | None, ...]:
    """Return whose artifacts a session can name, by its name in the store: its tenant's, and those of no tenant.

    The second are for a handle that has no tenant: it may have kept an artifact before it knew the session that would name it.
    """
    found = _SESSION.fullmatch(session)
    return (found[1], None) if found else (None,)


def artifacts_of(shelf: Artifacts, owner: str | None) -> Artifacts:
    """Return the artifacts of a tenant, or of no tenant, among all that lie in one place."""
    return shelf if owner is None else TenantArtifacts(shelf, owner)


class TenantArtifacts:
    """The artifacts of one tenant, in a place that others share."""

    def __init__(self, inner: Artifacts, tenant: str) -> None:
        self._inner, self._tenant = inner, tenant

    def put(self, chunks: Iterable[bytes], *, name: Callable[[], str] | None = None) -> ArtifactCard:
        tally = CardBuilder()
        self._inner.put(
            counted(chunks, tally), name=lambda: self._name(tally.card().sha256 if name is None else name())
        )
        return tally.card()

    def read(self, sha256: str) -> Iterator[bytes]:
        self.span(sha256, 0, 0)  # `NotFound` at once
        return proven(self, sha256)

    def span(self, sha256: str, start: int, size: int) -> bytes:
        return self._inner.span(self._name(sha256), start, size)

    def sidecar(self, sha256: str) -> bytes | None:
        return self._inner.sidecar(self._name(sha256))

    def write_sidecar(self, sha256: str, data: bytes) -> None:
        self._inner.write_sidecar(self._name(sha256), data)

    def delete(self, sha256: str, *, unless_put_after_ms: int) -> bool:
        return self._inner.delete(self._name(sha256), unless_put_after_ms=unless_put_after_ms)

    def kept(self, sha256: str) -> tuple[KeptArtifact, ...]:
        return self._inner.kept(self._name(sha256))

    def _name(self, sha256: str) -> str:
        check_artifact(sha256)
        return new_sha256(f"foveal artifact\0{self._tenant}\0{sha256}".encode()).hexdigest()


def proven(artifacts: Artifacts, sha256: str) -> Iterator[bytes]:
    """Yield the bytes of an artifact by its spans; the last ones only if all of them match the hash."""
    digest, held_back, at = new_sha256(), b"", 0
    while piece := artifacts.span(sha256, at, _READ_BYTES):
        digest.update(piece)
        if held_back:
            yield held_back
        held_back, at = piece, at + len(piece)
    if digest.hexdigest() != sha256:
        raise StoreCorrupt(f"artifact {sha256}", "its bytes do not match the hash")
    if held_back:
        yield held_back
