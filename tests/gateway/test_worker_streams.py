"""A gateway and a worker, each a process of its own: the stream of the one tells the run that the other drives."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from foveal.testing.provider import Call, ReceivedRequest, ScriptedProvider, Turn
from foveal.testing.run_checks import run_problems

from .api_client import ApiClient
from .conftest import RunningGateway
from .test_run_api import listening

AGENT = """
name = "lister"
model = "openai:gpt-5@{url}/v1"
tools = ["todos"]
"""


@contextmanager
def command(folder: Path, *words: str) -> Iterator[str]:
    """Run a command of Foveal's until the block ends, and give the first line that it tells."""
    whole = [sys.executable, "-m", "foveal", *words, "--agent", "agent.toml", "--store", "runs.db"]
    with subprocess.Popen(whole, cwd=folder, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        try:
            yield process.stdout.readline()
        finally:
            process.terminate()


@pytest.fixture
def folder(tmp_path: Path, provider: ScriptedProvider, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    (tmp_path / "agent.toml").write_text(AGENT.format(url=provider.url))
    return tmp_path


def test_a_stream_tells_a_run_that_a_worker_drives(folder: Path, provider: ScriptedProvider) -> None:
    """From before a worker has it: kept events as they come, under ids from which another stream goes on. Words that are said
    to the gateway reach the worker."""
    asked, go = threading.Event(), threading.Event()

    def answer(request: ReceivedRequest) -> Turn:
        said = str(request.body["messages"])
        if "todo_write" not in said:
            return Turn("", (Call("call_1", "todo_write", {"todos": []}),))
        asked.set()
        assert go.wait(20)
        return Turn("Heard." if "Be quick." in said else "Nothing to do.")

    provider.improvise = answer
    seen: list[tuple[int, str, Any]] = []
    with command(folder, "serve", "--port", "0") as first:
        gateway = RunningGateway(cast("Any", None), first.split()[2].rstrip(","), [])
        with command(folder, "run", "--session", "s", "--detach", "List.") as told:
            assert told == "s#1\n"
        with ApiClient(gateway) as api, listening(api, "s#1") as events:
            seen.append(next(events))
            with command(folder, "runs", "work") as told:
                assert told.startswith("worker for lister")
                for event in events:
                    seen.append(event)
                    if event[1] == "tool_ended":
                        assert asked.wait(60)
                        assert api.ask("run_show", "s#1")["status"] == "running"
                        api.ask("run_steer", "s#1", text="Be quick.")
                        go.set()
            names = [name for _, name, _ in seen]
            with listening(api, "s#1", last_event_id=str(seen[4][0])) as rest:
                assert list(rest) == seen[5:]
    assert names[0] == "run_started"
    assert names[-2:] == ["run_ended", "end"]
    assert {"tool_called", "tool_started", "tool_ended", "usage", "model_replied"} <= set(names)
    assert run_problems([data for _, name, data in seen if name != "end"]) == []
    assert [data["text"] for _, name, data in seen if name == "model_replied"][-1] == "Heard."
