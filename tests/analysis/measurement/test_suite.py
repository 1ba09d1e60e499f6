"""Which sessions are measured, in which order, by how many processes."""

import hashlib
import json

import pytest

from foveal.analysis.measurement.outcome import Job
from foveal.analysis.measurement.suite import Pick, Source, load, run
from foveal_bench.runners import own_runner

from .sessions import case


@pytest.fixture
def source(tmp_path):
    file = tmp_path / "set.jsonl"
    lines = [{"id": f"s{n}", "messages": _messages(n)} for n in range(12)]
    file.write_text("\n".join(map(json.dumps, lines)))
    return Source("set", (file,))


def _messages(n):
    return [
        {"role": "user", "content": "Say something. " * (40 * n)},
        {"role": "assistant", "content": f"something_{n}"},
    ]


def test_the_test_half_is_told_by_the_hash_of_the_id(source):
    """First byte below 128: the half that nothing is trained on."""
    found = {one.id for one in load(Pick(test_half=True), source).cases}
    assert found == {f"s{n}" for n in range(1, 12) if hashlib.sha256(f"s{n}".encode()).digest()[0] < 128}
    assert 0 < len(found) < 12


def test_a_session_of_which_nothing_can_be_sent_is_left_out_with_a_note(source):
    """The first session says nothing before its reply."""
    loaded = load(Pick(), source)
    assert "s0" not in {one.id for one in loaded.cases}
    assert len(loaded.notes) == 1
    assert "left out" in loaded.notes[0]


def test_short_sessions_are_left_out(source):
    """Counted in tokens of the last prompt."""
    assert {one.id for one in load(Pick(least_tokens=800), source).cases} == {f"s{n}" for n in range(7, 12)}


def test_at_most_so_many_are_taken_and_always_the_same(source):
    """The first by the hash of their ids."""
    every = [one.id for one in load(Pick(), source).cases]
    assert [one.id for one in load(Pick(most=3), source).cases] == every[:3]


def test_sessions_on_which_defaults_were_chosen_can_be_passed_over(source):
    """The first three are left out, the others stay in their order."""
    every = [one.id for one in load(Pick(), source).cases]
    assert [one.id for one in load(Pick(skip=3), source).cases] == every[3:]


def test_two_processes_find_what_one_finds():
    """Outcomes do not depend on how the work is spread, but for the time they took."""
    cases = [case(turns=8, name=name) for name in ("a", "b")]
    work = [Job("window, batched to 0.5", 1_500), Job("foveal", 1_500)]
    found = [list(run(cases, work, find=own_runner, jobs=jobs)) for jobs in (1, 2)]
    for one in (outcome for outcomes in found for outcome in outcomes):
        one.figures.cpu_s = 0.0
    assert found[0] == found[1]
