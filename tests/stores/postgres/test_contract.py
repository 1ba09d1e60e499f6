"""The store in PostgreSQL keeps the promises of the port."""

from base64 import b64encode
from collections.abc import Callable, Iterator
from pathlib import Path
from secrets import token_bytes
from tempfile import TemporaryDirectory

import msgspec
import pytest

from foveal.stores.chain import seed
from foveal.stores.keys import LocalKeys
from foveal.stores.port import Store
from foveal.stores.postgres.store import PostgresStore
from foveal.stores.private import PrivateStore
from foveal.testing.connection_cutter import ConnectionCutter
from foveal.testing.postgres_server import PostgresServer
from foveal.testing.store_contract import StoreContract

SOCKET = ".s.PGSQL.5432"


class TestPostgresStore(StoreContract):
    @pytest.fixture(autouse=True)
    def _server(self, server: PostgresServer, opened: Callable[..., PostgresStore]) -> Iterator[None]:
        self.opened = opened
        with TemporaryDirectory(prefix="foveal-") as folder:
            self.cutter = ConnectionCutter(Path(folder) / SOCKET, server.folder / SOCKET)
            self.url = server.url.replace(str(server.folder), folder)
            yield
            self.cutter.close()

    def make_store(self) -> Store:
        return self.opened(url=self.url)

    def reopen(self, store: Store) -> Store:
        store.close()
        return self.opened()

    def second_handle(self, store: Store) -> Store:
        return self.opened()

    def lapse(self, store: Store) -> bool:
        assert isinstance(store, PostgresStore)
        store._lease.stop()  # it sleeps
        store._run(lambda link: link.ask("UPDATE @leases SET until = clock_timestamp() - interval '1 s'"))
        return True

    def cut(self, store: Store, name: str, *, is_after: bool) -> bool:
        self.cutter.cut(name.encode(), is_after=is_after)
        return True

    def lose_tail(self, store: Store, session: str, entries: int) -> bool:
        assert isinstance(store, PostgresStore)
        known = store._known(session)
        end = store.rows_at(session, [entries]).get(entries)
        where = (known.key, entries)
        store._run(lambda link: link.ask("DELETE FROM @entries WHERE session = %s AND seq > %s", where))
        hashes = store._run(lambda link: link.ask("SELECT hash FROM @entries WHERE session = %s AND seq = %s", where))
        chain = hashes[0][0] if hashes else seed(session)
        short = msgspec.structs.replace(known, entries=entries, head=end and end.id, chain=chain)
        update = "UPDATE @sessions SET entries = %s, head = %s, chain = %s, seal = %s WHERE key = %s"
        store._run(lambda link: link.ask(update, (entries, short.head, chain, short.seal(), known.key)))
        return True


class TestPrivatePostgresStore(TestPostgresStore):
    """The promises hold for a tenant's sessions under keys, too, but for the hashes in tombstones: see `test_private.py`."""

    test_a_deleted_session_is_gone_and_leaves_a_tombstone = None  # pyright: ignore[reportAssignmentType]

    def make_store(self) -> Store:
        self.keys = LocalKeys(b64encode(token_bytes(32)).decode(), "the test")
        return PrivateStore(super().make_store(), tenant="acme", keys=self.keys)

    def reopen(self, store: Store) -> Store:
        return PrivateStore(super().reopen(store), tenant="acme", keys=self.keys)

    def second_handle(self, store: Store) -> Store:
        return PrivateStore(super().second_handle(store), tenant="acme", keys=self.keys)

    def lapse(self, store: Store) -> bool:
        assert isinstance(store, PrivateStore)
        return super().lapse(store._inner)

    def lose_tail(self, store: Store, session: str, entries: int) -> bool:
        assert isinstance(store, PrivateStore)
        return super().lose_tail(store._inner, f"@acme:{session}", entries)
