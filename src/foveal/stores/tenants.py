"""Tenants: the names that their sessions and artifacts have in a store that they share.

A session of the tenant `acme` is `@acme:NAME` there. Its artifacts are named by a hash of the tenant and of their bytes, so that
no tenant reads, replaces or deletes those of another one that has the same bytes.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from hashlib import sha256 as new_sha256
from typing import Protocol, runtime_checkable

from foveal.stores.artifact_card import CardBuilder, counted
from foveal.stores.checks import check_artifact
from foveal.stores.port import ArtifactCard, Artifacts
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


def tenant_of(session: str) -> str | None:
    """Return the tenant of a session by its name in the store; None if it has none."""
    found = _SESSION.fullmatch(session)
    return found[1] if found else None


def artifacts_of(artifacts: Artifacts, tenant: str | None) -> Artifacts:
    """Return the artifacts that the logs of a tenant can name; all of them without a tenant."""
    if tenant is None:
        return artifacts
    return artifacts.of_tenant(tenant) if isinstance(artifacts, SharedArtifacts) else TenantArtifacts(artifacts, tenant)


@runtime_checkable
class SharedArtifacts(Protocol):
    """Artifacts of an operator's handle, which are named or encrypted for nobody in particular."""

    def of_tenant(self, tenant: str) -> Artifacts:
        """Return the artifacts of one tenant in the same place."""
        ...


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

    def of_tenant(self, tenant: str) -> Artifacts:
        """Return the artifacts of one tenant in the same place; of a tenant's own, those of a session that is named like one."""
        return TenantArtifacts(self if self._tenant else self._inner, tenant)

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
