"""Files that come with a message: checked before the run begins, shown by the rules of attachments, in one commit with it."""

import asyncio
import os
from typing import Any

import pytest

import foveal
from foveal.agent import Runs
from foveal.agent.run_events import FileAttached, UserSpoke
from foveal.agent.run_files import MOST_BYTES, MOST_FILES
from foveal.agent.run_log import read_events, read_run
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
    appended: list[list[str]] = []
    whole = store.load

    def load(*given, **options):
        opening = whole(*given, **options)
        write = opening.writer.append

        def append(drafts, **more):
            appended.append([one.author for one in drafts])
            return write(drafts, **more)

        opening.writer.append = append
        return opening

    store.load = load
    asyncio.run(agent.run("Read.", files=[file], session="s", store=store))
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
