"""The artifacts of one session. A store decides by this alone where they lie: whoever writes, reads, copies or deletes them asks
`Store.artifacts_for`.

They are put into one place. They are looked for in others, too: `keep_stream` keeps an artifact before its session is known, and
earlier versions chose the place by the handle and not by the session.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from foveal.stores.port import ArtifactCard, Artifacts, KeptArtifact
from foveal.stores.tenants import artifacts_of, owners_of
from foveal.values.errors import NotFound, StoreError

T = TypeVar("T")


def plain_artifacts(shelf: Artifacts, session: str) -> Artifacts:
    """Return the artifacts of a session of a store that is open for all tenants and has no keys."""
    places = [artifacts_of(shelf, owner) for owner in owners_of(session)]
    return in_places(places[0], places)


def in_places(own: Artifacts, places: Sequence[Artifacts]) -> Artifacts:
    """Return the artifacts that are put into their own place, and looked for in these, in turn."""
    return own if [*places] == [own] else PlacedArtifacts(own, places)


class PlacedArtifacts:
    """Artifacts that have a place of their own, and may lie in others."""

    def __init__(self, own: Artifacts, places: Sequence[Artifacts]) -> None:
        self._own, self._places = own, tuple(places)

    def put(self, chunks: Iterable[bytes], *, name: Callable[[], str] | None = None) -> ArtifactCard:
        return self._own.put(chunks, name=name)

    def read(self, sha256: str) -> Iterator[bytes]:
        return self._found(lambda place: place.read(sha256))

    def span(self, sha256: str, start: int, size: int) -> bytes:
        return self._found(lambda place: place.span(sha256, start, size))

    def sidecar(self, sha256: str) -> bytes | None:
        return next((found for place in self._places if (found := place.sidecar(sha256)) is not None), None)

    def write_sidecar(self, sha256: str, data: bytes) -> None:
        try:
            self._found(lambda place: (place.span(sha256, 0, 0), place)[1]).write_sidecar(sha256, data)
        except (NotFound, StoreError):
            self._own.write_sidecar(sha256, data)

    def delete(self, sha256: str, *, unless_put_after_ms: int) -> bool:
        gone = [place.delete(sha256, unless_put_after_ms=unless_put_after_ms) for place in self._places]
        return any(gone)

    def kept(self, sha256: str) -> tuple[KeptArtifact, ...]:
        return tuple({one.name: one for place in self._places for one in place.kept(sha256)}.values())

    def _found(self, ask: Callable[[Artifacts], T]) -> T:
        """Return the answer of the first place that has one; else the error that says most."""
        problems = list[NotFound | StoreError]()
        for place in self._places:
            try:
                return ask(place)
            except (NotFound, StoreError) as error:
                problems.append(error)
        raise next((error for error in problems if isinstance(error, StoreError)), problems[-1])
