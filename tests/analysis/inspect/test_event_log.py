"""The kept events of a stored session: read from the log, and followed while another process writes it."""

import subprocess
import sys
from pathlib import Path

import pytest

from foveal import NotFound, Session, analysis, events, open_store, user

WRITER = """
import sys, foveal
with foveal.open_store(sys.argv[1]) as store, foveal.Session(store, "s", model="gpt-5") as session:
    for n in range(3):
        session.append(foveal.user("Hello."))
        prompt = session.prompt()
        session.extend([foveal.assistant("Yes."), foveal.Usage("gpt-5", 10 + n, 1)])
"""


def test_another_process_is_followed(tmp_path: Path) -> None:
    """The counts come in their order, each once, while the writer runs; a second reader goes on behind a place."""
    place = tmp_path / "agent.db"
    with open_store(place) as store:
        Session(store, "s", model="gpt-5").close()
        writer = subprocess.Popen([sys.executable, "-c", WRITER, str(place)])
        heard: list[analysis.LoggedEvent] = []
        for logged in analysis.tail(store, "s", poll_s=0.01):
            if logged is not None:
                heard.append(logged)
            elif writer.poll() is not None and len(heard) == 3:
                break
        assert writer.wait() == 0
        told = [one.event for one in heard if isinstance(one.event, events.UsageReported)]
        assert [event.input_tokens for event in told] == [10, 11, 12]
        assert list(analysis.events(store, "s")) == heard
        assert list(analysis.events(store, "s", after=heard[1].seq)) == heard[2:]
        assert store.find("s", heard[0].entry)[0].seq == heard[0].seq


def test_a_session_that_is_not_there_is_an_error() -> None:
    """By its name; a session that is deleted ends the tail in the same way."""
    store = open_store()
    with pytest.raises(NotFound, match="'s'"):
        list(analysis.events(store, "s"))
    with Session(store, "s", model="gpt-5") as session:
        session.append(user("Hello."))
    following = analysis.tail(store, "s", poll_s=0.0)
    assert next(following) is None
