"""Files that come with a message: checked before the run begins, shown by the rules of attachments, in one commit with it."""

import asyncio
import os
from typing import Any

import pytest

import foveal
from foveal.agent import Limits, Runs, tool
from foveal.agent.driver import LOST_FILES
from foveal.agent.inbox import FollowUp, letters, post
from foveal.agent.run_events import FileAttached, UserSpoke
from foveal.agent.run_files import MOST_BYTES, MOST_FILES, posted_files
from foveal.agent.run_log import read_events, read_run
from foveal.testing.commit_faults import CommitFaults
from foveal.testing.crash_points import cut_log
from foveal.values.errors import BadInput

from ..context.files.made import png
from .conftest import FakeModel, agent_with, calls, collect, says


def parts(request) -> list[Any]:
    """The types of the content parts of each message of the user, or the text of one that has no parts."""
    messages = [one["content"] for one in request["messages"] if one["role"] == "user"]
    return [one if isinstance(one, str) else [part["type"] for part in one] for one in messages]


def test_an_image_and_a_text_come_with_the_message(store, tmp_path):
    """The image is sent as an image, the text whole, both before the words; they are files and no turns of the user."""
    (tmp_path / "a.png").write_bytes(png(30, 20))
    (tmp_path / "notes.md").write_text("# Notes\nThe logo is wrong.\n")
    model = FakeModel(says("I see."))
    outcome = asyncio.run(
        agent_with(model).run(
            "What is wrong?", files=[tmp_path / "a.png", str(tmp_path / "notes.md")], session="s", store=store
        )
    )
    assert outcome.text == "I see."
    shown, notes, words, *_ = parts(model.requests[0])
    assert shown == ["text", "image_url"]
    assert notes.startswith("[file notes.md: text, text/markdown")
    assert notes.endswith("The logo is wrong.\n")
    assert words == "What is wrong?"
    told = list(read_events(store, "s"))
    assert [one.text for one in told if isinstance(one, UserSpoke)] == ["What is wrong?"]
    attached = [one.text for one in told if isinstance(one, FileAttached)]
    assert [one.split(":")[0] for one in attached] == ["[file a.png", "[file notes.md"]
    assert read_run(store, "s").turn == 1


@pytest.mark.parametrize("text", ["", " ", "\n\t"])
def test_a_message_without_words_and_files_is_refused(store, text):
    """Nothing is begun with it and nothing is said; files without words are a message."""
    model = FakeModel(says("I see."), says("Again."))

    async def say():
        agent = agent_with(model)
        runs = Runs(store, [agent])
        for said in (runs.start(agent, text, session="s"), agent.run(text, session="s", store=store)):
            with pytest.raises(BadInput, match="no words and no files"):
                await said
        with pytest.raises(BadInput, match="no words and no files"):
            _ = [one async for one in agent.stream(text, session="s", store=store)]
        assert not list(store.cards("s"))
        run = await runs.start(agent, text, session="s", files=[foveal.File("", "a.txt", b"alpha")])
        for said in (runs.steer(run, text), runs.follow_up(run, text)):
            with pytest.raises(BadInput, match="no words and no files"):
                await said
        return await runs.wait(run)

    assert asyncio.run(say()).text == "I see."
    assert len(model.requests) == 1


def test_a_large_text_is_shown_by_its_outline_and_recalled_whole(store):
    """Nothing of it is cut: the reference in the prompt leads to all of it, for the model as well."""
    text = "".join(f"line {number}\n" for number in range(50_000))
    model = FakeModel(says("Long."))
    file = foveal.File("text/plain", "big.log", text.encode())
    asyncio.run(agent_with(model).run("Read.", files=[file], session="s", store=store))
    shown = parts(model.requests[0])[0]
    assert len(shown) < 20_000
    (attached,) = [one for one in read_events(store, "s") if isinstance(one, FileAttached)]
    assert attached.entry[:10] in shown
    with foveal.Session(store, "s", model="gpt-5") as session:
        assert session.recall(attached.entry) == text


@pytest.mark.parametrize(
    ("files", "said"),
    [
        (["missing.png"], "missing.png cannot be sent: No such file"),
        (["."], "it is no file"),
        (["pipe"], "it is no file"),
        ([foveal.File("", "x.bin", bytes(range(256)))], "x.bin cannot be sent: it is no text"),
        ([foveal.File("", "x.png", png(30, 20)[:30])], "x.png cannot be sent: the image is not shown"),
        ([foveal.File("", "x.log", b"x" * (MOST_BYTES + 1))], "too large to be sent: 16,777,216 bytes"),
        ([foveal.File("", "x.png", url="https://example.org/x.png")], "an address is not fetched"),
        (["a\0.txt"], "embedded null byte"),
        (["a\ud800.txt"], "cannot be sent: .*surrogates not allowed"),
        ("notes.txt", "files is the text 'notes.txt'; give a list"),
        (["a.txt"] * (MOST_FILES + 1), "21 files come with one message; 20 are the most"),
    ],
)
def test_a_file_that_cannot_be_sent_is_an_error_before_anything_begins(store, tmp_path, monkeypatch, files, said):
    """The error names the file and the reason; there is no session, and the model is not asked."""
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe")
    model = FakeModel()
    with pytest.raises(BadInput, match=said):
        asyncio.run(agent_with(model).run("Read.", files=files, session="s", store=store))
    assert (store.cards(), model.requests) == ([], [])


def test_files_and_words_are_one_commit(store):
    """Wherever a process ends, a log with a file in it has the whole beginning of the run, or none of it."""
    model = FakeModel(says("One."), says("Two."))
    agent = agent_with(model)
    file = foveal.File("", "a.txt", b"alpha")
    faults = CommitFaults(store)
    asyncio.run(agent.run("Read.", files=[file], session="s", store=store))
    appended = [[one.author for one in drafts] for drafts in faults.commits]
    assert [authors for authors in appended if "file" in authors] == [appended[0]]
    assert len(appended[0]) == 5  # instructions, the mark of the run, the file, its news, the words


def test_a_run_with_files_goes_on_after_a_crash(store):
    """The state that is read from the log at each place is one that can be driven to its end."""
    file = foveal.File("", "a.txt", b"alpha")
    made = FakeModel(calls("nothing"), says("One."))
    asyncio.run(agent_with(made).run("Read.", files=[file], session="s", store=store))
    begun = next(row.seq for row in store.rows("s") if row.author == "file") + 2
    for place in range(begun, begun + 3):
        cut = cut_log(store, "s", place)
        model = FakeModel(by=lambda request: says("Done."))

        async def go_on(cut=cut, model=model):
            runs = Runs(cut, [agent_with(model)])
            await runs.recover()
            return await runs.wait("s#1")

        assert asyncio.run(go_on()).text == "Done."
        assert "alpha" in parts(model.requests[0])[0]


def test_files_come_with_later_messages_and_streams(store):
    """In all four verbs, and to a session that goes on."""
    model = FakeModel(*(says("ok") for _ in range(3)))
    agent = agent_with(model)
    file = foveal.File("", "a.txt", b"alpha")
    agent.run_sync("First.", session="s", store=store)
    list(agent.stream_sync("Second.", files=[file], session="s", store=store))
    asyncio.run(collect(agent.stream("Third.", files=[file], session="s", store=store)))
    users = parts(model.requests[-1])
    assert [one.splitlines()[-1] for one in users][:5] == ["First.", "alpha", "Second.", "alpha", "Third."]


def test_a_client_that_knows_the_run_goes_on_behind_its_files(store):
    """Of a session that follows a client's list, words with files are known in the next list as words without them are."""
    told = [foveal.user("Hi."), foveal.assistant("Hello.")]
    with foveal.Session(store, "s", model="gpt-5") as session:
        session.follow(told)
    agent = agent_with(FakeModel(says("Yes.")), instructions="")
    file = foveal.File("", "a.txt", b"alpha")
    asyncio.run(agent.run("Read it.", files=[file], session="s", store=store))
    with foveal.Session(store, "s", model="gpt-5") as session:
        followed = session.follow([*told, foveal.user("Read it."), foveal.assistant("Yes."), foveal.user("And?")])
        assert (followed.outcome, followed.written) == ("grown", 1)
        assert "alpha" in str(session.prompt().request)


async def steered(store, agent, files, at_work, verb="steer"):
    """The outcome of a run that hears something while its first tool is at work."""
    runs = Runs(store, [agent])
    run = await runs.start(agent, "Go.", session="s")
    await at_work.wait()
    await getattr(runs, verb)(run, "Look at this.", files=files)
    at_work.go.set()
    return await runs.wait(run, 30)


class AtWork(asyncio.Event):
    """Set when a tool is at work; `go` lets it end."""

    def __init__(self):
        super().__init__()
        self.go = asyncio.Event()

    def tool(self):
        @tool
        async def work() -> str:
            self.set()
            await self.go.wait()
            return "worked"

        return work


@pytest.mark.parametrize("verb", ["steer", "follow_up"])
def test_files_come_with_words_for_a_run_under_way(store, tmp_path, verb):
    """The image and the text stand before the words, where those are heard; where the inbox is lost, the model is told."""
    (tmp_path / "a.png").write_bytes(png(30, 20))
    files = [tmp_path / "a.png", foveal.File("", "a.txt", b"alpha\xff")]
    model = FakeModel(calls("work"), says("One."), says("Two."))

    async def talk():
        at_work = AtWork()
        return await steered(store, agent_with(model, at_work.tool()), files, at_work, verb)

    assert asyncio.run(talk()).status == "completed"
    heard = 1 if verb == "steer" else 2
    assert "Look at this." not in str(model.requests[heard - 1])
    first, shown, notes, words = parts(model.requests[heard])[:4]
    assert (first, shown, words) == ("Go.", ["text", "image_url"], "Look at this.")
    assert notes.startswith("[file a.txt")
    told = list(read_events(store, "s"))
    assert [one.text for one in told if isinstance(one, UserSpoke)] == ["Go.", "Look at this."]
    assert len([one for one in told if isinstance(one, FileAttached)]) == 2
    taken = next(row.seq for row in store.rows("s") if b"queued" in row.payload)
    again = FakeModel(by=lambda request: says("Done."))

    cut = cut_log(store, "s", taken + 1)

    async def go_on():
        runs = Runs(cut, [agent_with(again, AtWork().tool())])
        await runs.recover()
        return await runs.wait("s#1", 30)

    assert asyncio.run(go_on()).text == "Done."
    assert parts(again.requests[-1])[1].endswith(LOST_FILES)  # it is the log alone, without the inbox


@pytest.mark.parametrize(
    ("files", "said"),
    [
        (["missing.png"], "missing.png cannot be sent: No such file"),
        (
            [foveal.File("", f"{n}.log", b"\\" * MOST_BYTES) for n in range(2)],
            "too large for a run under way: 67,132,",
        ),
    ],
)
def test_words_whose_files_cannot_be_sent_are_not_said(store, files, said):
    model = FakeModel(calls("work"), says("Done."))

    async def talk():
        at_work = AtWork()
        task = asyncio.create_task(steered(store, agent_with(model, at_work.tool()), files, at_work))
        with pytest.raises(BadInput, match=said):
            await task
        at_work.go.set()

    asyncio.run(talk())
    assert letters(store, "s") == []


def test_secrets_in_files_for_a_run_under_way_are_in_no_inbox(store):
    """Neither in their names nor in their texts."""
    model = FakeModel(calls("work"), says("Done."))
    secret = foveal.File("", "sesame.txt", b"the word is sesame")

    async def talk():
        at_work = AtWork()
        agent = agent_with(model, at_work.tool(), redact=lambda text: text.replace("sesame", "[secret]"))
        return await steered(store, agent, [secret], at_work)

    assert asyncio.run(talk()).text == "Done."
    assert "the word is [secret]" in str(model.requests[1])
    assert not any(b"sesame" in row.payload for name in ("s", "s/.inbox") for row in store.rows(name))


def test_words_with_files_that_came_too_late_are_heard_in_the_next_run(store):
    """The answer had been given when they were read."""
    agent = agent_with(model := FakeModel(says("One."), says("Two."), says("Three.")))
    agent.run_sync("Go.", session="s", store=store)
    post(store, "s", FollowUp("Look.", posted_files([foveal.File("", "a.txt", b"alpha")], agent.models[0])))
    agent.run_sync("Again.", session="s", store=store)
    users = parts(model.requests[-1])
    assert [one.splitlines()[-1] for one in users][:4] == ["Go.", "Again.", "alpha", "Look."]


def test_words_with_files_that_a_failed_run_has_not_heard_are_heard_in_the_next_run(store):
    """They had been taken from the inbox, and waited for an answer that did not come."""

    async def talk(model):
        at_work = AtWork()
        agent = agent_with(model, at_work.tool(), limits=Limits(max_steps=2))
        runs = Runs(store, [agent])
        run = await runs.start(agent, "Go.", session="s")
        await at_work.wait()
        await runs.follow_up(run, "Look.", files=[foveal.File("", "a.txt", b"alpha")])
        at_work.go.set()
        assert (await runs.wait(run, 30)).reason == "no answer within 2 steps"
        return await runs.wait(await runs.start(agent, "Again.", session="s"), 30)

    model = FakeModel(calls("work"), calls("work"), says("One."), says("Two."))
    assert asyncio.run(talk(model)).text == "Two."
    assert [one.splitlines()[-1] for one in parts(model.requests[-1])][-4:-1] == ["Again.", "alpha", "Look."]


def test_files_that_wait_are_heard_by_the_process_that_goes_on(store):
    """The words were taken from the inbox, and its process died before they were heard."""
    file = foveal.File("", "a.txt", b"alpha")

    async def die():
        at_work = AtWork()
        agent = agent_with(FakeModel(calls("work")), at_work.tool())
        runs = Runs(store, [agent])
        run = await runs.start(agent, "Go.", session="s")
        await at_work.wait()
        await runs.follow_up(run, "Look.", files=[file])
        await runs.pause(run)
        return await runs.wait(run, 30)

    async def go_on(model):
        at_work = AtWork()
        at_work.go.set()
        runs = Runs(store, [agent_with(model, at_work.tool())])
        return await runs.wait(await runs.resume("s"), 30)

    assert asyncio.run(die()).status == "paused"
    (waiting,) = read_run(store, "s").following
    assert (waiting.text, waiting.letter) == ("Look.", 1)
    model = FakeModel(says("One."), says("Two."))
    assert asyncio.run(go_on(model)).text == "Two."
    assert [one.splitlines()[-1] for one in parts(model.requests[-1])][:3] == ["Go.", "alpha", "Look."]
