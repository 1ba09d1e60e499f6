"""The opening of a session by the store's other methods."""

import pytest

from foveal.stores.memory import MemoryStore
from foveal.stores.port import SessionCard
from foveal.testing.store_contract import draft
from foveal.values.errors import LeaseLost


class _DeletedMeanwhile(MemoryStore):
    """A store in which somebody deletes a session just after it was acquired."""

    def cards(self, session: str | None = None) -> list[SessionCard]:
        if session is not None and super().cards(session):
            self.delete([session], takeover=True)
        return super().cards(session)


def test_a_session_that_is_deleted_while_it_is_opened_is_told_as_lost() -> None:
    """Its writer may not append any more, which is an error of Foveal's own, after which the session can be opened again."""
    store = _DeletedMeanwhile()
    with pytest.raises(LeaseLost, match="was deleted while it was opened"):
        store.load("s")
    store.acquire("s").append([draft("e")])
