"""The nonce of the engine's own tags: a secret of the session, the same in all of its prompts."""

import re
from collections.abc import Iterator

import pytest

from foveal.context.fences import FenceKind
from foveal.session.options import Clock
from foveal.session.policy import BudgetTable, Policy
from foveal.session.session import Session
from foveal.stores.memory import MemoryStore
from foveal.stores.rows import branch, to_entry
from foveal.testing.builders import counted_ids
from foveal.text.guard import session_nonce
from foveal.values.entry import Setup, assistant, user
from foveal.values.errors import OverBudget

POLICY = Policy(fences=(FenceKind("rules", lifetime="session"),))


def opened(store: MemoryStore, *, seed: str = "a", policy: Policy = POLICY) -> Session:
    return Session(store, "s", model="gpt-5", policy=policy, clock=Clock(counted_ids(seed), lambda: 0))


def framed(session: Session) -> str:
    """The nonce in the next prompt."""
    (found,) = set(re.findall(r'nonce="(\w+)"', str(session.prompt().request)))
    return found


def began(store: MemoryStore, *, seed: str = "a") -> Session:
    session = opened(store, seed=seed)
    session.append(user("Begin."), id="ticket-1")
    session.context.inject("rules", "Be brief.")
    return session


def test_ids_of_the_host_tell_nothing_of_the_nonce() -> None:
    """Whoever knows the ids of all messages cannot compute it: two sessions with the same ids have two nonces."""
    nonces = [framed(began(MemoryStore(), seed=seed)) for seed in ("one", "two")]
    assert len({*nonces, session_nonce("ticket-1")}) == 3


def test_the_nonce_stays_for_the_life_of_a_session() -> None:
    """Further prompts, another setup and opening again keep it, so that the prefix does not move."""
    store = MemoryStore()
    session = began(store)
    first = framed(session)
    session.append(assistant("Done."))
    session.prompt([{"name": "read", "input_schema": {"type": "object"}}])
    assert framed(session) == first
    session.close()
    again = opened(store, seed="b")
    again.append(user("Go on."))
    assert framed(again) == first
    assert [one.nonce for one in setups(store)] == [first] * len(setups(store))


def setups(store: MemoryStore) -> list[Setup]:
    bodies = (to_entry(row, "s").body for row in branch(store.rows("s")))
    return [body for body in bodies if isinstance(body, Setup)]


def test_the_id_that_it_is_made_of_is_never_shown() -> None:
    """It is the id of the first setup, which no reference names."""
    store = MemoryStore()
    session = began(store)
    nonce = framed(session)
    entries = [to_entry(row, "s") for row in branch(store.rows("s"))]
    (setup,) = [entry for entry in entries if isinstance(entry.body, Setup)]
    assert session_nonce(setup.id) == nonce
    assert setup.id[:10] not in str(session.prompt().request)


def test_a_log_of_an_earlier_version_keeps_its_nonce(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its setups name none: the prompt is framed by the id of the first entry, before and after a new setup."""
    store = MemoryStore()
    with monkeypatch.context() as patch:
        patch.setattr("foveal.session.journal.Journal.secure", lambda self: None)
        old = began(store)
        assert framed(old) == session_nonce("ticket-1")
        old.close()
    new = opened(store, seed="b")
    new.append(assistant("Done."))
    assert framed(new) == session_nonce("ticket-1")


def test_a_refused_first_prompt_costs_no_id() -> None:
    """The drawn id goes to the next entry, and the nonce of the first prompt that succeeds is one that no entry shows."""
    drawn: list[str] = []
    source = counted_ids("a")

    def ids() -> str:
        drawn.append(source())
        return drawn[-1]

    tight = Policy(budget=BudgetTable(limit=60, reserve=0), fences=POLICY.fences)
    session = Session(MemoryStore(), "s", model="gpt-5", policy=tight, clock=Clock(ids, lambda: 0))
    session.append(user("word " * 200))
    with pytest.raises(OverBudget):
        session.prompt()
    shown = session.append(assistant("Too long?"))
    assert shown.id == drawn[-1]
    assert list(_repeated(drawn)) == []


def _repeated(ids: list[str]) -> Iterator[str]:
    return (one for one in set(ids) if ids.count(one) > 1)
