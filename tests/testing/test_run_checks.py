"""The rules of runs see the faults that they are for: each is shown one."""

import pytest

from foveal.testing.run_checks import run_problems

SCOPE = {"session": "s", "run": "s#1"}


def events(*kinds):
    """Events with ids in their order."""
    return [{"id": n, "scope": SCOPE, "is": kind, **more} for n, (kind, more) in enumerate(kinds, 1)]


def status(name):
    return ("status_changed", {"status": name})


BEGIN = (("run_started", {}), status("pending"), status("running"))
CALL = ("tool_called", {"call": "c1"})
START = ("tool_started", {"call": "c1"})
RESULT = ("tool_ended", {"call": "c1"})
REPLY = ("model_replied", {})
END = (status("completed"), ("run_ended", {"status": "completed"}))


def test_a_good_run_has_no_problem():
    """Statuses, calls and results in their order."""
    assert run_problems(events(*BEGIN, REPLY, CALL, START, RESULT, REPLY, *END)) == []


@pytest.mark.parametrize(
    ("faulty", "words"),
    [
        ((*BEGIN, REPLY, CALL, REPLY, *END), "c1 has no result"),
        ((*BEGIN, REPLY, CALL, START, *END), "c1 has no result"),
        ((*BEGIN, REPLY, CALL, RESULT, RESULT, REPLY, *END), "a result for c1, which no reply calls"),
        ((*BEGIN, START, *END), "a tool started for c1, which no reply calls"),
        ((*BEGIN, status("pending")), "running was followed by pending"),
        ((status("running"),), "None was followed by running"),
        ((*BEGIN, *END, status("running")), "completed was followed by running"),
        ((*BEGIN, *END, REPLY), "came after the run was completed"),
        ((*BEGIN, status("failed"), ("run_ended", {"status": "completed"})), "tells completed, the status is failed"),
        ((*BEGIN, ("step_started", {"tokens": 11, "limit": 10})), "over its limit of 10"),
    ],
)
def test_a_fault_is_seen(faulty, words):
    """With the event that shows it."""
    assert any(words in problem for problem in run_problems(events(*faulty)))


def test_events_out_of_order_are_seen():
    """Ids grow."""
    first, second, *_ = events(*BEGIN)
    assert run_problems([second, first])[0] == "event 1 (run_started) came after event 2"
