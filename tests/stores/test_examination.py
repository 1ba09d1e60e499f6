"""The examination of a store by the methods of the port, while others use it and where a part of it cannot be read."""

from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from secrets import token_bytes

import pytest

from foveal.stores import open_store
from foveal.stores.examination import examine_store
from foveal.stores.keys import LocalKeys
from foveal.stores.large_results import keep_stream
from foveal.stores.memory import MemoryStore
from foveal.stores.port import Draft, Row, Store
from foveal.values.codec import encode
from foveal.values.entry import result, user

LARGE = b"x" * 100_000


def fill(store: Store, session: str, *, entries: int = 3, artifact: bytes = b"") -> str:
    """Append entries to a session, one more that names an artifact if there is one, and return its hash."""
    kept = keep_stream(store, [artifact]) if artifact else None
    given = [*(user(str(number)) for number in range(entries)), *([] if kept is None else [result("c", kept)])]
    writer = store.acquire(session)
    writer.append([Draft(f"e{number}", None, 1, "me", encode(entry)) for number, entry in enumerate(given)])
    writer.release()
    return "" if kept is None else kept.sha256


class Busy(MemoryStore):
    """A store in which a session is deleted, and made again if it is to be, when some of its rows were read."""

    def __init__(self, after: int, *, again: bool) -> None:
        super().__init__()
        self.after, self.again = after, again

    def rows(self, session: str, *, after: int = 0, upto: int | None = None) -> Iterator[Row]:
        if session == "goes" and self.after == 0:
            self._meanwhile()
        for row in super().rows(session, after=after, upto=upto):
            yield row
            if session == "goes" and row.seq == self.after:
                self._meanwhile()
                yield from super().rows(session, after=row.seq, upto=upto)
                return

    def _meanwhile(self) -> None:
        self.after = -1
        self.delete(["goes"])
        if self.again:
            fill(self, "goes", entries=1)


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("after", [0, 2])
def test_a_session_that_is_deleted_meanwhile_is_no_damage(after: int, *, again: bool) -> None:
    """The others are examined, and the examination ends, even if a shorter session of that name was made."""
    with Busy(after, again=again) as store:
        for name in ("stays", "goes"):
            fill(store, name)
        report = examine_store(store, "here")
        assert report.damage == ()
        assert sorted(report.names) == (["goes", "stays"] if again else ["stays"])


def test_an_artifact_that_went_with_its_session_is_no_damage() -> None:
    """An artifact is looked for after the last log, when the session that named it may be deleted."""

    class Going(MemoryStore):
        def rows(self, session: str, *, after: int = 0, upto: int | None = None) -> Iterator[Row]:
            yield from super().rows(session, after=after, upto=upto)
            if session == "last":
                self.delete(["goes"])
                assert self.artifacts.delete(sha256, unless_put_after_ms=1 << 60)

    with Going() as store:
        fill(store, "last")
        sha256 = fill(store, "goes", artifact=LARGE)
        store.backdate("last", created_ms=1, updated_ms=1)
        report = examine_store(store, "here")
        assert (report.damage, report.artifacts) == ((), 0)


def test_a_session_under_a_lost_key_does_not_keep_the_others(tmp_path: Path) -> None:
    """It is told with the name of the key; a destroyed artifact of another session is found."""
    lost, kept = (LocalKeys(b64encode(token_bytes(32)).decode(), "env:KEYS") for _ in range(2))
    for keys, name in ((lost, "lost"), (kept, "kept")):
        with open_store(tmp_path / "a.db", keys=keys) as store:
            fill(store, name, artifact=LARGE if name == "kept" else b"")
    (file,) = (path for path in (tmp_path / "a.db.artifacts").rglob("*") if path.is_file())
    file.write_bytes(b"broken")
    with open_store(tmp_path / "a.db", keys=kept) as store:
        report = examine_store(store, "here")
    (damage,), (unread,) = report.damage, report.unread
    assert str(damage).startswith("session kept, entry 4: the artifact that it names is damaged or missing")
    assert unread.startswith("session lost: this was encrypted under the key")
    assert (report.sessions, report.entries) == (2, 4)
