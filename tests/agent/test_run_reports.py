"""Reports about runs: each log is read once, a list is read as far as it is asked for, and one damaged session hides no other."""

import asyncio
import logging
from base64 import b64encode
from contextlib import suppress

import pytest

import foveal
from foveal.agent import Runs
from foveal.agent.abandoned_runs import AbandonedRuns
from foveal.agent.run_log import read_events
from foveal.session.session import Session
from foveal.testing.run_checks import run_problems
from foveal.values.errors import NotFound

from .conftest import FakeModel, agent_with, collect, damage, says


@pytest.fixture
def reads(store, monkeypatch):
    """The sessions whose logs are read from the beginning, one after the other."""
    found, rows = [], store.rows

    def counted(session, *, after=0, upto=None):
        if not after:
            found.append(session)
        return rows(session, after=after, upto=upto)

    monkeypatch.setattr(store, "rows", counted)
    return found


def ran(store, *names):
    for name in names:
        asyncio.run(agent_with(FakeModel(says(f"Hello {name}."))).run("Hi.", session=name, store=store))


def test_a_damaged_session_is_told_and_the_others_are_listed(store, monkeypatch, caplog):
    """In a list and in a page, with a card that says why; a list of one status has not got it."""
    ran(store, "a", "b", "c")
    damage(store, monkeypatch, "b")
    with caplog.at_level(logging.WARNING, "foveal.runs"):
        listed = Runs(store).list()
    assert [(one.run, one.status) for one in listed] == [("c#1", "completed"), ("b", None), ("a#1", "completed")]
    assert [one.session for one in Runs(store).page()] == ["a", "b", "c"]
    assert [one.session for one in Runs(store).list(status="completed")] == ["c", "a"]
    assert "cannot be read: " in listed[1].reason
    assert "entry 2 is damaged" in listed[1].reason
    assert "session b cannot be read" in caplog.text


def test_a_list_with_a_limit_reads_only_the_logs_that_it_shows(store, reads):
    """The newest ones; of a status, as many as have it."""
    ran(store, "a", "b", "c")
    reads.clear()
    assert [one.session for one in Runs(store).list(limit=2)] == ["c", "b"]
    assert set(reads) == {"c", "b"}
    assert Runs(store).list(status="failed", limit=2) == []


def test_pages_follow_each_other_by_name(store, reads, monkeypatch):
    """Each begins behind the last session of the one before, whatever was used last, and reads the catalogue no further."""
    ran(store, "b", "a", "c")
    monkeypatch.setattr(store, "cards", None)  # nobody reads all of them
    reads.clear()
    first = Runs(store).page(limit=2)
    assert [one.session for one in first] == ["a", "b"]
    assert set(reads) == {"a", "b"}
    rest = Runs(store).page(after=first[-1].session, limit=2, status="completed")
    assert [one.session for one in rest] == ["c"]
    assert Runs(store).page(after="c") == []


@pytest.mark.parametrize("run", ["s", "s#1", "s#2"])
def test_whoever_waits_reads_the_log_once(store, reads, run):
    """For a past run and for the newest one, of which nothing is under way."""
    ran(store, "s", "s")
    reads.clear()
    outcome = asyncio.run(Runs(store).wait(run))
    assert (outcome.status, outcome.text, outcome.steps, reads) == ("completed", "Hello s.", 1, ["s"])


@pytest.mark.parametrize("run", ["s", "s#1", "s#2"])
def test_whoever_observes_reads_the_log_once(store, reads, run):
    """And sees the events of that run alone."""
    ran(store, "s", "s")
    reads.clear()
    events = asyncio.run(collect(Runs(store).observe(run)))
    assert reads == ["s"]
    assert {one.scope.run for one in events} == {"s#1" if run == "s#1" else "s#2"}
    assert type(events[-1]).__name__ == "RunEnded"


def test_a_run_of_a_number_that_none_has_is_not_there(store):
    """However long the number is."""
    for number in ("2", "9" * 18, "9" * 5_000):
        with pytest.raises(NotFound, match="there is no run"):
            Runs(store).outcome(f"s#{number}")


REPLY = {
    "model": "gpt-5",
    "choices": [{"message": {"role": "assistant", "content": "By hand."}}],
    "usage": {"prompt_tokens": 1_000, "completion_tokens": 10, "total_tokens": 1_010},
}


@pytest.mark.parametrize("replies", [[says("Done.")], [ValueError("the model is broken")]], ids=["completed", "failed"])
def test_what_a_session_is_used_for_between_its_runs_is_no_part_of_them(store, replies):
    """A program that goes on by hand, or folds, adds neither events behind the end of a run nor calls to its cost."""
    agent = agent_with(FakeModel(*replies))
    with suppress(ValueError):
        asyncio.run(agent.run("Go.", session="s", store=store))
    runs = Runs(store)
    before = runs.cost("s"), list(read_events(store, "s"))
    with Session(store, "s", model="gpt-5") as session:
        session.append({"role": "user", "content": "By hand?"})
        session.append(REPLY)
    assert (runs.cost("s"), list(read_events(store, "s"))) == before
    again = agent_with(FakeModel(says("Done.")))
    asyncio.run(again.run("And?", session="s", store=store))
    assert runs.cost("s#2").calls == 1
    assert run_problems(read_events(store, "s")) == []


def test_runs_of_an_encrypted_store_are_told_without_its_keys(tmp_path, caplog):
    """A worker that was given no keys says why it takes nothing up, and a list names every session."""
    (tmp_path / "keys").write_text(b64encode(bytes(range(32))).decode())
    place = str(tmp_path / "sealed.db")
    with foveal.open_store(place, keys=str(tmp_path / "keys")) as store:
        asyncio.run(agent_with(FakeModel(says("Done."))).run("Go.", session="s", store=store))
    with foveal.open_store(place) as store:
        (card,) = Runs(store).list()
        assert (card.session, card.status) == ("s", None)
        assert "is encrypted; open the store with its keys" in card.reason
        assert asyncio.run(Runs(store).recover()) == []
        assert AbandonedRuns(store).look() == []
    assert sum("is encrypted" in record.getMessage() for record in caplog.records) == 3
