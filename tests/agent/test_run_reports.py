"""Reports about runs: each log is read once, a list is read as far as it is asked for, and one damaged session hides no other."""

import asyncio
import logging

import pytest

from foveal.agent import Runs
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
