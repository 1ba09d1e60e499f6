"""Every program in `examples/` runs, twice in a row on one store, against the scripted provider."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from foveal import Message, open_store
from foveal.stores.rows import to_entry
from foveal.testing.oracles import strings
from foveal.testing.provider import Call, ReceivedRequest, Refusal, ScriptedProvider, TooLong, Turn

from ..warm_python import WarmPython

EXAMPLES = Path(__file__).parents[2] / "examples"
AGENTS = ["openai_agent.py", "anthropic_agent.py"]
QUESTION = "What does notes.txt say?"
READS = Turn("", (Call("call_1", "read_file", {"path": "notes.txt"}),))


@pytest.fixture
def provider():
    for module in ("openai", "anthropic"):
        pytest.importorskip(module, reason=f"the SDK {module} is not installed")
    with ScriptedProvider() as running:
        yield running


WARM = """
import anthropic.resources.messages, openai.resources.chat.completions, openai.resources.responses
import foveal.session.session, foveal.stores.sqlite.store
from foveal.models.counters.encodings import encoding
encoding("o200k_base").count("warm")
"""


@pytest.fixture(scope="module")
def warm():
    """An interpreter that has imported the SDKs, for programs that have been started anew before."""
    running = WarmPython(WARM)
    yield running
    running.close()


@pytest.fixture
def again(provider, start, warm, tmp_path):
    """Starts an example in the same folder, without the imports."""

    def run(name: str, *words: object, code: int = 0) -> str:
        line = [str(EXAMPLES / name), *map(str, words)]
        return said_by(warm.run(line, cwd=tmp_path, env=environment(provider)), code)

    return run


@pytest.fixture
def start(provider, tmp_path, monkeypatch):
    """Starts an example in an empty folder with one file."""
    (tmp_path / "notes.txt").write_text("The tide turns at noon.\n")
    monkeypatch.chdir(tmp_path)

    def run(name: str, *words: object, code: int = 0) -> str:
        line = [sys.executable, str(EXAMPLES / name), *map(str, words)]
        return said_by(
            subprocess.run(line, env=environment(provider), capture_output=True, text=True, check=False), code
        )

    return run


def said_by(done: subprocess.CompletedProcess[str], code: int) -> str:
    """Return the output of an example that ended with this code, and silently if that is 0."""
    assert done.returncode == code, done.stderr
    assert code or done.stderr == ""
    return done.stdout


def environment(provider: ScriptedProvider) -> dict[str, str]:
    return os.environ | provider.environment | {"PYTHONUNBUFFERED": "1"}


def said(request: ReceivedRequest) -> str:
    """All texts of a request, the system prompt included, the tools left out."""
    return "\n".join(strings({key: value for key, value in request.body.items() if key != "tools"}))


def test_every_example_is_run_here():
    """A program that is added to the folder is added to the tests."""
    tested = set(re.findall(r"\b\w+\.py\b", Path(__file__).read_text(encoding="utf-8")))
    assert {path.name for path in EXAMPLES.glob("*.py")} <= tested


@pytest.mark.parametrize("agent", AGENTS)
def test_an_agent_goes_on_where_it_was(agent, start, again, provider):
    """The second run with the same question calls nobody; another question continues the same conversation."""
    provider.script(READS, Turn("The tide turns at noon."))
    assert "[reading notes.txt]\nThe tide turns at noon." in start(agent, QUESTION)
    assert [request.is_streamed for request in provider.requests] == [True, True]
    assert "The tide turns at noon." in said(provider.last)
    assert again(agent, QUESTION) == "That is answered: The tide turns at noon.\n"
    assert len(provider.requests) == 2

    provider.script(Turn("At midnight."))
    assert again(agent, "And the next?").strip() == "At midnight."
    text = said(provider.last)
    assert [text.count(line) for line in ("Read before you answer", QUESTION, "And the next?")] == [1, 1, 1]
    assert provider.refused == []


def _heeds_ctrl_c() -> None:
    """Undo what a shell does to programs that it starts in the background."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.skipif(os.name == "nt", reason="Ctrl-C is sent as a signal")
@pytest.mark.parametrize("agent", AGENTS)
def test_an_agent_that_is_cancelled_goes_on(agent, again, provider):
    """Ctrl-C in the middle of a stream: the words so far stay, and the next run asks the model to go on with them."""
    provider.script(READS, Turn("I was about to say", stall_after=9))
    line = [sys.executable, str(EXAMPLES / agent), QUESTION]
    with subprocess.Popen(
        line,
        env=environment(provider),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=_heeds_ctrl_c,  # noqa: PLW1509 - no thread of ours holds a lock here
    ) as running:
        assert running.stdout
        assert running.stderr
        assert running.stdout.readline() == "[reading notes.txt]\n"
        assert running.stdout.read(5) == "I was"
        running.send_signal(signal.SIGINT)
        running.stdout.read()
        assert "run it again to go on" in running.stderr.read()
    assert running.returncode == 130
    with open_store("agent.db") as store:
        (card,) = store.cards()
        bodies = [to_entry(row, card.id).body for row in store.rows(card.id)]
    replies = [body for body in bodies if isinstance(body, Message) and body.role == "assistant"]
    assert [reply.stop for reply in replies] == ["done", "aborted"]

    provider.script(Turn("The tide turns at noon."))
    assert "The tide turns at noon." in again(agent, QUESTION)
    text = said(provider.last)
    assert (text.count(QUESTION), text.count("I was"), text.count("Go on.")) == (1, 1, 1)
    assert provider.refused == []


@pytest.mark.parametrize("agent", AGENTS)
def test_an_agent_survives_a_broken_stream_and_an_error(agent, again, provider):
    """A run that fails leaves a session that the next run goes on with."""
    provider.script(READS, Turn("I was about to say", cut_after=9))
    again(agent, QUESTION, code=1)
    provider.script(Refusal(401, "no such key"))
    again(agent, QUESTION, code=1)
    provider.script(Turn("The tide turns at noon."))
    assert again(agent, QUESTION) == "The tide turns at noon.\n"
    assert said(provider.last).count(QUESTION) == 1
    assert provider.refused == []


def recalling(provider: ScriptedProvider) -> Callable[[ReceivedRequest], Turn]:
    """A model that reads eight files, then searches, recalls the first one, and answers."""

    def answer(request: ReceivedRequest) -> Turn:
        number = len(provider.requests) - 1
        if number < 8:
            return Turn("", (Call(f"call_{number}", "read_file", {"path": f"big_{number}.txt"}),))
        if number == 8:
            return Turn("", (Call("call_search", "search_context", {"query": "23757"}),))
        if number == 9:
            ref = re.findall(r"\[ref (\w{10}), read_file, line 4\]\nfile 0", said(request))[0]
            return Turn("", (Call("call_recall", "recall_context", {"ref": ref, "offset": 140}),))
        return Turn("I have seen all of it.")

    return answer


@pytest.mark.parametrize("agent", AGENTS)
def test_an_agent_recalls_what_was_folded(agent, again, provider, tmp_path):
    """Results that no longer fit are one recall away, answered by `serve`; no request is over the budget or refused."""
    for n in range(8):
        (tmp_path / f"big_{n}.txt").write_text("".join(f"file {n} line {i}: value {i * 7919}\n" for i in range(150)))
    provider.improvise = recalling(provider)
    again(agent, "Read all.", "--budget", 9_000)
    assert provider.refused == []
    assert max(request.tokens for request in provider.requests) <= 9_000
    assert len(provider.requests) == 11
    assert ["file 0 line 145: value" in said(request) for request in provider.requests[8:]] == [False, False, True]


@pytest.mark.parametrize("agent", AGENTS)
def test_an_agent_recovers_from_a_smaller_window(agent, again, provider, tmp_path):
    """A provider that takes less than it says is believed, and the same request is asked again, shorter."""
    (tmp_path / "notes.txt").write_text("".join(f"line {i}: value {i * 7919}\n" for i in range(900)))
    provider.script(READS, TooLong(limit=4_000, counted=9_000), Turn("Long."))
    assert again(agent, QUESTION).endswith("Long.\n")
    assert provider.requests[2].tokens < provider.requests[1].tokens
    assert provider.refused == []


def test_documents_stand_beside_the_question_that_they_were_found_for(start, again, provider, tmp_path):
    """Each prompt holds the documents of its own question, none of an older one, and a second run asks nothing."""
    folder = tmp_path / "handbook"
    folder.mkdir()
    (folder / "keys.md").write_text("Keys are rotated with `vault rotate`.\n\nNothing else.")
    (folder / "backups.txt").write_text("Backups are made at night.\n")
    words = ("chat_with_documents.py", folder, "How are keys rotated?", "When are backups made?")
    provider.script(Turn("With vault rotate."), Turn("At night."))
    first = start(*words)
    assert "> How are keys rotated?\nWith vault rotate." in first
    texts = [said(request) for request in provider.requests]
    assert ["`vault rotate`" in text for text in texts] == [True, False]
    assert ["made at night" in text for text in texts] == [False, True]
    assert again(*words) == first
    assert (len(provider.requests), provider.refused) == (2, [])


def test_many_sessions_share_a_store(start, provider):
    """Every conversation is its own, in order, and a message that is sent again is answered from the log."""
    provider.improvise = lambda request: Turn(f"Answer to {request.body['messages'][-1]['content']}.")
    for _ in range(2):
        assert "12 conversations, 24 messages" in start("many_sessions.py", "--demo", 12)
    assert (len(provider.requests), provider.refused) == (24, [])
    talks: dict[str, list[Any]] = {}
    for request in provider.requests:
        messages = request.body["messages"]
        talks.setdefault(messages[-1]["content"].split()[-1], []).append([m["content"] for m in messages[1:]])
    for number, prompts in talks.items():
        one, two = f"m1 of {number}", f"m2 of {number}"
        assert prompts == [[one], [one, f"Answer to {one}.", two]]


def test_a_backup_and_a_deletion_can_be_repeated(start, tmp_path):
    """Two runs leave the newest backups, one session with one entry, and no byte of the other."""
    for _ in range(3):
        out = start("backup_and_delete.py", "--keep", 2)
        assert "deleted customer-2: 1 entries" in out
        assert "left: customer-1 (1 entries)" in out
    assert len(list(tmp_path.glob("backups/*.db"))) == 2
    assert b"customer-2" not in (tmp_path / "agent.db").read_bytes()


def test_the_examples_run_without_a_key(start, tmp_path):
    """The line in each program's docstring that needs no key works."""
    line = [sys.executable, "-m", "foveal.testing.provider", EXAMPLES / "openai_agent.py", "Hello?"]
    plain = {name: value for name, value in os.environ.items() if not name.endswith(("_API_KEY", "_BASE_URL"))}
    done = subprocess.run(line, env=plain, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    with open_store(tmp_path / "agent.db") as store:
        assert [card.id for card in store.cards()] == ["openai-agent"]
