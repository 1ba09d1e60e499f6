"""`foveal events`: the kept events of a stored session."""

import json
from pathlib import Path

import pytest

from foveal import Session, Usage, assistant, open_store, user
from foveal.cli import main


@pytest.fixture
def place(tmp_path: Path) -> str:
    path = str(tmp_path / "agent.db")
    with open_store(path) as store, Session(store, "s", model="gpt-5") as session:
        for n in range(3):
            session.append(user("Hello."))
            session.prompt()
            session.extend([assistant("Yes."), Usage("gpt-5", 1_010 + n, 1)])
    return path


def test_a_line_an_event_with_its_place(place: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The place goes on behind it with --after; the session's name is not repeated."""
    assert main(["events", "s", "--store", place]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("  ")[-1] for line in lines] == [
        f"gpt-5 counted {count} in (0 from the cache, 0 written to it) and 1 out"
        for count in ("1,010", "1,011", "1,012")
    ]
    assert main(["events", "s", "--after", lines[1].split()[0], "--store", place]) == 0
    assert capsys.readouterr().out.splitlines() == lines[2:]


def test_as_json_each_line_is_an_event(place: str, capsys: pytest.CaptureFixture[str]) -> None:
    """With its kind, its place, its entry and its time."""
    assert main(["events", "s", "--json", "--store", place]) == 0
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [one["event"]["input_tokens"] for one in told] == [1_010, 1_011, 1_012]
    assert {one["event"]["event"] for one in told} == {"usage_reported"}


def test_an_unknown_session_is_named(place: str, capsys: pytest.CaptureFixture[str]) -> None:
    """In one sentence, with a code of its own."""
    assert main(["events", "other", "--store", place]) != 0
    assert "'other'" in capsys.readouterr().err
