"""The nonce of the engine's own tags: a secret of the session, the same in all of its prompts."""

import re

import pytest

from foveal.context.fences import FenceKind
from foveal.session.options import Clock
from foveal.session.policy import Policy
from foveal.session.session import Session
from foveal.stores.memory import MemoryStore
from foveal.testing.builders import counted_ids
from foveal.text.guard import nonce, session_nonce
from foveal.values.entry import assistant, user

POLICY = Policy(fences=(FenceKind("rules", lifetime="session"),))


def opened(store: MemoryStore, *, seed: str = "a", ids: str = "a") -> Session:
    clock = Clock(counted_ids(ids), lambda: 0, lambda: seed.encode().ljust(32))
    return Session(store, "s", model="gpt-5", policy=POLICY, clock=clock)


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
    again = opened(store, seed="b", ids="b")
    again.append(user("Go on."))
    assert framed(again) == first == nonce(store.secret("s"))


def test_a_branch_from_before_the_first_prompt_keeps_it() -> None:
    """Nothing that was framed for another branch, and is remembered, differs from what a session opened anew would frame."""
    store = MemoryStore()
    session = began(store)
    first, start = framed(session), next(iter(store.rows("s"))).id
    session.branches.rewind(start)
    session.context.inject("rules", "Be brief.")
    assert framed(session) == first
    session.close()
    assert framed(opened(store, seed="b", ids="b")) == first


def test_a_log_of_an_earlier_version_keeps_its_nonce(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its session has no secret: the prompt is framed by the id of the first entry."""
    monkeypatch.setattr(MemoryStore, "secret", lambda self, name: b"")
    store = MemoryStore()
    old = began(store)
    assert framed(old) == session_nonce("ticket-1")
    old.append(assistant("Done."))
    old.close()
    assert framed(opened(store, seed="b", ids="b")) == session_nonce("ticket-1")
