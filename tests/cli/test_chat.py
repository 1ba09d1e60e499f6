"""`foveal chat` on a real pseudo-terminal, and through pipes, against a scripted provider."""

import os
import re
import subprocess
import sys
import threading
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import foveal
from foveal.agent.model_port import ModelChoice
from foveal.agent.run_log import read_events, read_run
from foveal.analysis.inspect.stored_session import branch_of
from foveal.cli.chat_blocks import MarkdownBlocks
from foveal.cli.chat_history import said_messages
from foveal.cli.chat_models import chosen_model, host_of
from foveal.cli.chat_names import with_files, without_files
from foveal.testing.provider import Call, Refusal, ScriptedProvider, Turn
from foveal.testing.run_checks import run_problems

from ..context.files.made import png
from ..warm_python import WarmPython
from .pseudo_terminal import END, ENTER, ESCAPE, INTERRUPT, PATIENCE_S, TAB, UP, PseudoTerminal

KEYS = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "GEMINI_API_KEY", "GOOGLE_API_KEY")

GUARDED = """
model = "openai:gpt-5@URL/v1"
tools = ["list_files"]
[[approvals]]
tool = "list_files"
"""
DELEGATING = 'model = "openai:gpt-5@URL/v1"\nagents = ["reader.toml"]\n'
LOOK = Turn("I look.", (Call("c1", "list_files", {}),))


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    for name in KEYS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "login.py").write_text("cookie = 1\n")
    return tmp_path


@pytest.fixture
def provider():
    with ScriptedProvider() as provider:
        yield provider


WARM = """
import importlib
from importlib.util import find_spec
import foveal.cli.chat, foveal.agent.driver, foveal.stores.sqlite.store
import foveal.dialects.openai_chat.read, foveal.dialects.openai_chat.stream, foveal.dialects.openai_chat.filter
from foveal.models.counters.encodings import encoding
encoding("o200k_base").count("warm")
names = "openai.resources.chat.completions", "httpcore2", "prompt_toolkit.shortcuts", "foveal.cli.chat_prompt", "rich.markdown"
for name in names:
    if find_spec(name.partition(".")[0]) and find_spec("prompt_toolkit"):
        importlib.import_module(name)
"""


@pytest.fixture(scope="module")
def warm():
    """An interpreter that has imported what a chat needs: most of the time of its start."""
    running = WarmPython(WARM)
    yield running
    running.close()


@pytest.fixture(params=["prompt"])
def chat(request, folder, provider, warm):
    """Starts a chat on a terminal: with the input line, and in plain lines."""
    opened: list[PseudoTerminal] = []

    def start(*words: str, agent: str = "") -> PseudoTerminal:
        if agent:
            (folder / "agent.toml").write_text(agent.replace("URL", provider.url))
        chosen = ("--agent", "agent.toml") if agent else ("--model", f"openai:gpt-5@{provider.url}/v1")
        plain = ("--plain",) if request.param == "plain" else ()
        options = (*chosen, "--session", "s", "--store", "agent.db", *plain, *words)
        opened.append(PseudoTerminal("chat", *options, cwd=folder, warm=warm))
        opened[-1].see("/help lists the commands")
        return opened[-1]

    start.interrupt = ESCAPE if request.param == "prompt" else INTERRUPT  # pyright: ignore
    yield start
    for one in opened:
        one.close()


LOGIN = "login.py:\n```\ncookie = 1\n```"

needs_chat = pytest.mark.skipif(not find_spec("prompt_toolkit"), reason="the extra chat is not installed")

IN_BOTH = pytest.mark.parametrize("chat", ["prompt", "plain"], indirect=True)
"""With the line editor and without it: where keys and lines are read differently."""


def texts(provider: ScriptedProvider, role: str = "user") -> list[Any]:
    """Return the messages of one role in the newest request."""
    return [one["content"] for one in provider.last.body["messages"] if one["role"] == role]


@IN_BOTH
def test_words_calls_and_costs_are_shown(chat, provider):
    """A message is answered; its call is a line; the line at the foot has tokens and cost."""
    provider.script(LOOK, Turn("There is **one** file."))
    terminal = chat()
    terminal.say("What is here?")
    terminal.see("I look.", "→ list_files {}", "file.", "tokens (", "$0.00")
    assert re.search(r"\$0\.00\d*[1-9]", terminal.see_rest())
    terminal.say("/quit")
    assert terminal.leave() == 0


@needs_chat
def test_the_newest_words_of_a_paragraph_are_shown_before_it_ends(chat, provider):
    """A long paragraph that has not ended is shown by its last rows, also on a smaller screen, and then once, as a whole."""
    words, go_on = " ".join(f"word{number}" for number in range(300)), threading.Event()
    provider.script(Turn(words, stall_after=30, stall_until=go_on))
    terminal = chat()
    terminal.say("Tell me.")
    terminal.see("word130")
    terminal.resize(30, 8)
    terminal.see("word142")
    terminal.resize(100, 45)
    go_on.set()
    shown = terminal.see("word299")
    assert shown.count("word299") == 1


@needs_chat
def test_a_line_that_is_typed_while_words_come_leaves_them_once_on_the_screen(chat, provider):
    """The unfinished block stays above the input line, and not also above the line that was typed."""
    go_on = threading.Event()
    provider.script(Turn("word0 word1 word2 word3 word4.", stall_after=6, stall_until=go_on), Turn("Two."))
    terminal = chat()
    terminal.say("First.")
    terminal.see("word0")
    terminal.say("Second.")
    assert terminal.see("1 queued").count("word0") == 1
    go_on.set()
    terminal.see_rest()
    # A finished block comes to its place a moment after it has left the other one.
    assert terminal.see("word0", "Two.").count("word0") == 1


@needs_chat
@pytest.mark.parametrize(
    ("text", "columns", "rows"),
    [
        ("one two three four", 9, ["one two", "three", "four"]),
        ("one\n\ttwo", 20, ["one", "    two"]),
        ("abcdefgh", 3, ["abc", "def", "gh"]),
        ("日本語です", 4, ["日本", "語で", "す"]),
        ("a\n\nb\nc\nd", 9, ["b", "c", "d"]),
        ("", 9, []),
    ],
)
def test_the_last_rows_of_a_text_fit_a_screen(text, columns, rows):
    """They are wrapped at words where that is possible, and no row is wider than the screen."""
    from foveal.cli.chat_prompt import last_rows  # noqa: PLC0415 - needs the extra chat

    assert last_rows(text, columns, 3) == rows


@IN_BOTH
def test_an_interrupt_keeps_the_words(chat, provider):
    """The reply ends where it is, and the next request has the words that had come."""
    provider.script(Turn("The first thing that I would like to say is long.", stall_after=8), Turn("Good."))
    terminal = chat()
    terminal.say("Tell me.")
    terminal.see("The fi")
    terminal.type(chat.interrupt)
    terminal.see("interrupted; the words so far are kept")
    terminal.say("Shorter.")
    terminal.see("Good.")
    assert any(text.startswith("The fi") for text in texts(provider, "assistant"))
    terminal.say("/quit")
    assert terminal.leave() == 0


def gated(provider: ScriptedProvider, *turns: Turn) -> tuple[threading.Event, threading.Event]:
    """Let the provider answer with these turns, the first one when the second event is set; the first tells that it is asked."""
    asked, gate, left = threading.Event(), threading.Event(), iter(turns)

    def answer(_request: object) -> Turn:
        asked.set()
        gate.wait(PATIENCE_S)
        return next(left)

    provider.improvise = answer
    return asked, gate


@IN_BOTH
def test_messages_wait_for_the_answer(chat, provider, folder):
    """A line that is typed while the agent works is heard after the answer, in the same run, with the files that it names."""
    (folder / "shot.png").write_bytes(png(30, 20))
    asked, gate = gated(provider, LOOK, Turn("One."), Turn("Two."))
    terminal = chat()
    terminal.say("First.")
    assert asked.wait(PATIENCE_S)
    terminal.say("Second, see #login.py and #shot.png.")
    terminal.see("with login.py, shot.png")
    _queued(terminal)
    gate.set()
    terminal.see("Two.")
    first, image, words, *_ = texts(provider)
    assert (first, [part["type"] for part in image]) == ("First.", ["text", "image_url"])
    assert words == f"Second, see #login.py and #shot.png.\n\n{LOGIN}"
    assert "login.py" in texts(provider, "tool")[0]  # the call was run: steering would have left it out
    assert read_run(foveal.open_store("agent.db"), "s").id == "s#1"


@IN_BOTH
def test_an_interrupt_hears_the_queue_at_once(chat, provider):
    """Messages that waited are not lost with the run that they waited for."""
    provider.script(Turn("One of several things.", stall_after=4), Turn("Two."))
    terminal = chat()
    terminal.say("First.")
    terminal.see("One")
    terminal.say("Second, see #login.py.")
    terminal.see("1 queued") if chat.interrupt == ESCAPE else _queued(terminal)
    terminal.type(chat.interrupt)
    terminal.see("Two.")
    assert texts(provider)[-1] == f"Second, see #login.py.\n\n{LOGIN}"


def _queued(terminal: PseudoTerminal) -> None:
    """Wait until the message is in the inbox: plain lines do not show it."""
    with foveal.open_store("agent.db") as store:
        while not any(card.id == "s/.inbox" for card in store.cards()):
            time.sleep(0.02)


@IN_BOTH
def test_a_message_that_waited_is_shown_again_above_its_answer(chat, provider):
    """Answers do not run together, and each stands below the message that it answers."""
    asked, gate = gated(provider, Turn("One."), Turn("Two."), Turn("Three."))
    terminal = chat()
    terminal.say("First.")
    assert asked.wait(PATIENCE_S)
    terminal.say("Second.")
    _queued(terminal)
    gate.set()
    terminal.see("One.\n› Second.\nTwo.")


def test_words_that_ask_for_the_final_answer_are_no_message(chat, provider):
    """They are not shown as if somebody had said them, and `/undo` takes back the message before them."""
    provider.script(Turn("Draft."), Turn("Final."))
    terminal = chat(agent='model = "openai:gpt-5@URL/v1"\nfinalize = "Write it."\n')
    terminal.say("First.")
    terminal.see("Draft.\nFinal.")
    terminal.see_rest()
    terminal.say("/undo")
    terminal.see("back before: First.")


@IN_BOTH
def test_an_interrupt_before_the_first_word_says_so(chat, provider):
    """Nothing is kept where nothing had come."""
    asked, gate = gated(provider, Turn("One."))
    terminal = chat()
    terminal.say("First.")
    assert asked.wait(PATIENCE_S)
    terminal.type(chat.interrupt)
    terminal.see("interrupted; nothing had come yet")
    gate.set()


@needs_chat
def test_words_that_were_taken_back_are_brought_back_by_up(chat, provider):
    """They are the newest ones that were typed, and not in the way of a command."""
    provider.script(Turn("One."), Turn("Two."))
    terminal = chat()
    terminal.say("First.")
    terminal.see_rest()
    terminal.say("/undo")
    terminal.see("the Up key brings the words back")
    terminal.type(UP + ENTER)
    terminal.see("Two.")
    assert texts(provider) == ["First."]


@IN_BOTH
def test_long_errors_are_wrapped_at_words(chat):
    """No word is broken at the edge of the screen, whatever its width is now."""
    terminal = chat()
    for columns in (47, 61):
        terminal.resize(columns, 45)
        terminal.say("/model anthropic:claude-sonnet-5")
        terminal.see("base_url.")
        told = " ".join(terminal.text.split())
        assert "Set ANTHROPIC_API_KEY or ANTHROPIC_AUTH_TOKEN, name another variable with key_env, or another" in told
        terminal.screen.reset()


def test_steering_comes_before_the_next_step(chat, provider):
    """`/steer` is heard before the model is asked again, and not after its answer."""
    asked, gate = gated(provider, LOOK, Turn("Changed."))
    terminal = chat()
    terminal.say("First.")
    assert asked.wait(PATIENCE_S)
    terminal.say("/steer Leave it.")
    terminal.see("heard before the next step")
    gate.set()
    terminal.see("Changed.")
    assert texts(provider)[-1] == "Leave it."
    assert len(provider.requests) == 2


@IN_BOTH
@pytest.mark.parametrize(
    ("typed", "told"),
    [
        ("y", "login.py"),
        ("always", "login.py"),
        ('e {"folder": "."}', "the user changed the arguments to"),
        ("not today", "not today"),
    ],
)
def test_approvals_are_asked_in_line(chat, provider, typed, told):
    """The next line decides: allow, always, other arguments, or a denial with a reason, which the model reads."""
    provider.script(LOOK, Turn("Finished."))
    terminal = chat(agent=GUARDED)
    terminal.say("Look.")
    terminal.see("May list_files be called?", "y: allow")
    terminal.say(typed)
    shown = terminal.see("Finished.")
    assert told in str(provider.last.body["messages"])
    assert shown.count("→ list_files") == 1


@IN_BOTH
def test_the_whole_call_is_shown_that_is_asked_about(chat, provider):
    """Five thousand characters, with their blanks: whoever answers has seen what will be done."""
    words = f"{'x ' * 1_200}{' ' * 200}{'y' * 2_400}; rm -rf"
    provider.script(Turn("", (Call("c1", "list_files", {"folder": words}),)), Turn("Finished."))
    terminal = chat(agent=GUARDED)
    terminal.say("Look.")
    terminal.see("y: allow")
    rows = terminal.text.split("May list_files be called?")[1].split("\n")
    assert words in "".join(f"{row:<100}" for row in ["-" * 25 + rows[0], *rows[1:]])


def test_an_answer_that_comes_too_late_is_told(chat, provider):
    """The run went on without it; the chat says so, shows the answer, and hears the next message."""
    provider.script(LOOK, Turn("Denied, then."), Turn("And so on."))
    terminal = chat(agent=GUARDED + "[limits]\nquestion_s = 0.05\n")
    terminal.say("Look.")
    terminal.see("May list_files be called?")
    wait_until(lambda: read_run(foveal.open_store("agent.db"), "s").status == "completed")
    terminal.say("y")
    terminal.see("has not asked", "Denied, then.")
    assert "nobody answered in time" in str(provider.last.body["messages"])
    terminal.say("Go on.")
    terminal.see("And so on.")


def wait_until(is_so):
    """Wait for something that another process does."""
    for _ in range(1_000):
        if is_so():
            return
        threading.Event().wait(0.02)
    raise AssertionError("it did not come about")


def test_a_question_waits_for_another_chat(chat, provider):
    """The terminal is closed at the question; the next chat asks it again, and goes on."""
    provider.script(LOOK, Turn("Finished."))
    terminal = chat(agent=GUARDED)
    terminal.say("Look.")
    terminal.see("May list_files be called?")
    terminal.say("/quit")
    assert terminal.leave() == 0
    again = chat(agent=GUARDED)
    again.see("May list_files be called?")
    again.say("y")
    again.see("Finished.")
    assert run_problems(read_events(foveal.open_store("agent.db"), "s")) == []


def test_sub_agents_are_shown_as_they_work(chat, folder, provider):
    """Their beginning and their calls, under their names."""
    (folder / "reader.toml").write_text(
        f'model = "openai:gpt-5@{provider.url}/v1"\ndescription = "reads"\ntools = ["list_files"]\n'
    )
    found = "There is one file, and it sets a cookie to the number one. " * 5
    delegate = Turn("", (Call("c1", "delegate", {"task": "Look."}),))
    provider.script(delegate, Turn("", (Call("c2", "list_files", {}),)), Turn(found), Turn("All read."))
    terminal = chat(agent=DELEGATING)
    terminal.say("Read it all.")
    shown = terminal.see("All read.", "sub-agent s/reader-", "→ list_files")
    assert any("reader-" in line and "→ list_files" in line for line in shown.splitlines())


def test_what_is_said_can_be_taken_back(chat, provider):
    """`/undo` goes back before the last message; the branch that was left is listed and can be gone back to."""
    provider.script(Turn("One."), Turn("Two."), Turn("Three."))
    terminal = chat()
    terminal.say("First.")
    terminal.see_rest()
    terminal.say("/undo")
    terminal.see("back before: First.")
    terminal.say("/branches")
    terminal.see("/rewind ENTRY goes back to one")
    terminal.say("Other.")
    terminal.see("Two.")
    assert texts(provider) == ["Other."]


def test_the_session_is_kept_and_goes_on(chat, provider):
    """Another chat with the same session has the conversation and its cost."""
    provider.script(Turn("One."), Turn("Two."))
    first = chat()
    first.say("First.")
    first.see_rest()
    first.type(END)
    assert first.leave() == 0
    second = chat()
    second.see("$0.00")
    assert "$0.0000" not in second.text
    second.say("Second.")
    second.see("Two.")
    assert texts(provider) == ["First.", "Second."]


def test_a_failure_is_told_and_the_run_goes_on(chat, provider):
    """A provider that refuses is a sentence; `/resume` asks it again."""
    provider.script(Refusal(401, "wrong key"), Turn("Now."))
    terminal = chat()
    terminal.say("First.")
    terminal.see("failed:", "/resume goes on with it")
    terminal.say("/resume")
    terminal.see("Now.")


def test_a_file_is_sent_with_the_message(chat, provider):
    """`#login.py` is its content, in a block of its own."""
    provider.script(Turn("Read."))
    terminal = chat()
    terminal.say("Look at #login.py, please.")
    terminal.see("with login.py", "Read.")
    assert texts(provider) == [f"Look at #login.py, please.\n\n{LOGIN}"]


def test_an_image_is_sent_as_an_image_and_taken_back_with_its_message(chat, provider, folder):
    """`#shot.png` comes before the words that mention it; `/undo` leaves nothing of it."""
    (folder / "shot.png").write_bytes(png(30, 20))
    provider.script(Turn("A square."), Turn("Nothing."))
    terminal = chat()
    terminal.say("What is on #shot.png?")
    terminal.see("with shot.png", "A square.")
    image, words, *_ = texts(provider)
    assert [part["type"] for part in image] == ["text", "image_url"]
    assert words == "What is on #shot.png?"
    terminal.see_rest()
    terminal.say("/undo")
    terminal.see("back before: What is on #shot.png?")
    terminal.say("Hello.")
    terminal.see("Nothing.")
    assert texts(provider) == ["Hello."]


def test_blocks_that_somebody_typed_are_no_files(folder):
    """A message that waited is said again as it was typed, without the files that it named."""
    typed = "Fix #login.py:\n\nThe error is:\n```\nTraceback\n```\nand leave the tests."
    said = with_files(typed, folder).text
    assert said.endswith(LOGIN)
    assert without_files(said) == without_files(typed) == typed


@pytest.mark.parametrize(
    ("content", "inside", "beside"),
    [
        (b"cookie = 1", ("x.dat",), ()),
        (b"cookie\n" * 20_000, (), ("x.dat",)),
        (png(3, 2), (), ("x.dat",)),
        (bytes(range(256)), (), ()),
    ],
)
def test_a_mentioned_file_is_part_of_the_message_or_attached_by_its_content(folder, content, inside, beside):
    """A short text is part of it, a long one and an image are attached; bytes that nobody can show stay a name."""
    (folder / "x.dat").write_bytes(content)
    said = with_files("See #x.dat and #missing.dat.", folder)
    assert (said.inside, said.beside) == (inside, beside)


@needs_chat
@pytest.mark.parametrize("chat", ["prompt"], indirect=True)
@pytest.mark.parametrize(
    ("typed", "become"), [("#logi", "#login.py"), ("@search", "@search_files"), ("/cur", "/current")]
)
def test_names_are_completed(chat, typed, become):
    """Files after `#`, tools after `@`, commands after `/`."""
    terminal = chat()
    terminal.type(typed)
    terminal.see(become)
    terminal.type(TAB + ENTER)
    terminal.see(f"› {become}")


COMMANDS = (
    ("/current", "session s, 3 messages"),
    ("/help", "/rewind [N|ENTRY]"),
    ("/cost", "s#"),
    ("/why", "gpt-5 in the openai_chat dialect"),
    ("/sessions", "completed"),
    ("/tools", "asks first"),
    ("/skills", "no skills"),
    ("/branches", "no branch was left"),
    ("/rewind", "Word 1."),
    ("/model", "gpt-5 at 127.0.0.1:"),
    ("/search First", "First."),
    ("/export", "s.jsonl: session s,"),
    ("/compact", "s"),
    ("/load x", "there is no conversation 'x'"),
    ("/queue often", "/queue is one, all, steer; it is one now"),
    ("/pin", "/pin ENTRY; /why lists the entries"),
    ("/unpin", "/unpin ENTRY; /why lists the entries"),
    ("/rewind 99", "messages; /rewind lists them"),
    ("/rewind xyz", "no entry begins with 'xyz'; /rewind lists your messages"),
    ("/model gpt-5-mini", "/model openai:gpt-5-mini sends the conversation to api.openai.com"),
    ("/crrent", "Did you mean current"),
    ("/model anthropic:claude-sonnet-5", "Set ANTHROPIC_API_KEY"),
    ("/why 'open", "No closing quotation"),
    ("/clean", ""),
    ("/new", "session default-"),
)


def heard(provider: ScriptedProvider, lines: tuple[str, ...], options: tuple[str, ...], warm: WarmPython | None) -> str:
    """Say these lines to a chat through a pipe, and return everything that it prints."""
    chosen = options or ("--model", f"openai:gpt-5@{provider.url}/v1")
    words = ["-m", "foveal", "chat", *chosen, "--session", "s", "--store", "agent.db"]
    given = "\n".join((*lines, ""))
    if warm:
        done = warm.run(words, given=given, cwd=Path.cwd(), env=os.environ)
    else:
        done = subprocess.run([sys.executable, *words], input=given, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def piped(warm, provider):
    """Says these lines to a chat, and returns everything that it prints."""
    return lambda *lines, options=(): heard(provider, lines, options, warm)


def test_commands(folder, provider):
    """Each command answers in words, and none of them ends the chat: what is said after it is heard."""
    provider.script(Turn("Answer 0."), *(Turn(f"Answer {number}.") for number in range(1, len(COMMANDS) + 1)))
    lines = ["First.", *(line for number, (one, _) in enumerate(COMMANDS, 1) for line in (one, f"Word {number}."))]
    rest = heard(provider, tuple(lines), (), None)  # in an interpreter of its own, as a person starts it
    for number, (command, said) in enumerate(COMMANDS):
        _, _, rest = rest.partition(f"Answer {number}.")
        answered, _, _ = rest.partition(f"Answer {number + 1}.")
        assert said in answered, f"{command}: {answered}"
        assert f"Answer {number + 1}." in rest, command


def test_without_a_key_it_says_what_to_set(run, folder):
    """Before anything is asked, for the default agent and for one of a file; and how to try it without."""
    assert "set one of ANTHROPIC_API_KEY, OPENAI_API_KEY, GEMINI_API_KEY" in run("chat").err
    (folder / "agent.toml").write_text('model = "claude-sonnet-5"\n')
    done = run("chat", "--agent", "agent.toml")
    assert (done.code, "Set ANTHROPIC_API_KEY" in done.err) == (2, True)


@pytest.mark.parametrize("size", [1, 3, 100])
def test_blocks_of_markdown_are_whole(size):
    """However the words come: a piece of code is one block, blank lines and all, and nothing is lost."""
    text = "# Title\n\nSome words.\n\n```py\na = 1\n\nb = 2\n```\nMore.\n"
    blocks = MarkdownBlocks()
    found = [block for at in range(0, len(text), size) for block in blocks.feed(text[at : at + size])]
    found.append(blocks.rest())
    assert [one.strip() for one in found] == ["# Title", "Some words.", "```py\na = 1\n\nb = 2\n```", "More."]


def test_a_fold_can_be_undone_by_the_command_that_is_printed(provider, piped):
    """`/compact` names a command of the chat, and that command goes back before the fold."""
    provider.script(*(Turn(f"{number} " * 4_000) for number in range(4)))
    told = piped("One.", "Two.", "Three.", "Four.", "/compact")
    undo = re.search(r"^Undo: (/rewind (\w+))$", told, re.MULTILINE)
    assert undo, told[-1_000:]
    assert f"back at {undo[2]}" in piped(undo[1])


def test_another_model_is_told_with_its_host_at_once(provider, piped):
    """The line at the foot has the new name before the next call, and the answer names the host of both models."""
    provider.script(Turn("One."))
    host = provider.url.partition("//")[2]
    told = piped("First.", f"/model openai:other@{provider.url}/v1")
    assert f"other at {host} (was gpt-5 at {host})\n[other · " in told
    assert f" --model openai:other@{provider.url}/v1 " in told.rstrip().splitlines()[-1]


@pytest.mark.parametrize(
    ("said", "before", "host"),
    [
        ("gpt-5-mini", "openai:gpt-5", "api.openai.com"),
        ("openai:gpt-5-mini", "openai:llama@http://localhost:1/v1", "api.openai.com"),
        ("openai:a@http://me:secret@localhost:1/v1", "openai:gpt-5", "localhost:1"),
        ("gpt-5-mini", "openai:llama@http://localhost:1/v1", ""),
        ("claude-sonnet-5", "openai:gpt-5", ""),
        ("anthropic:claude-sonnet-5", "openai:gpt-5", "api.anthropic.com"),
    ],
)
def test_a_bare_name_goes_to_no_other_host(said, before, host):
    """A conversation goes to another host only where the provider or the address is said; user names are not shown."""
    if host:
        assert host_of(chosen_model(said, ModelChoice.of(before))) == host
    else:
        with pytest.raises(foveal.BadInput, match="nothing was changed"):
            chosen_model(said, ModelChoice.of(before))


def test_an_address_in_the_environment_is_the_host(monkeypatch):
    """The SDK asks there, so the chat names it."""
    monkeypatch.setenv("OPENAI_BASE_URL", "http://proxy:8080/v1")
    assert host_of(ModelChoice.of("gpt-5")) == "proxy:8080"


def test_a_chat_that_is_left_says_how_to_go_on(provider, folder, piped):
    """With every option that was given; a chat without a word has nothing to go on with."""
    (folder / "my agent.toml").write_text(f'model = "openai:gpt-5@{provider.url}/v1"\n')
    provider.script(Turn("One."))
    options = ("--agent", "my agent.toml", "--workspace", str(folder))
    assert "Go on with" not in piped("/help", options=options)
    told = piped("First.", options=options)
    assert told.rstrip().endswith(f"chat --session s --agent 'my agent.toml' --workspace {folder} --store agent.db")


def test_a_conversation_is_shown_again_by_its_end(provider, piped):
    """The last two exchanges, and the number of messages before them."""
    provider.script(*(Turn(f"Answer {number}.") for number in range(3)))
    piped("Message 0.", "Message 1.", "Message 2.")
    told = piped("/current")
    shown = (
        "2 earlier messages are not shown here; /rewind lists yours\n› Message 1.\nAnswer 1.\n› Message 2.\nAnswer 2.\n"
    )
    assert shown in told


def test_a_result_is_shown_by_its_first_line_and_its_size(provider, folder, piped):
    """Below its call; with the name of its tool where another line stands between."""
    (folder / "b.py").write_text("")
    calls = (Call("c1", "read_file", {"path": "login.py"}), Call("c2", "list_files", {}))
    provider.script(Turn("", calls[1:]), Turn("", calls), Turn("Read."))
    told = piped("Look.")
    assert re.search(r"→ list_files \{\}\n  \S+ \(\d+ lines, \d+ bytes\)\n", told), told
    assert "\n  read_file: cookie = 1\n" in told


def test_a_branch_without_a_message_is_told(provider, piped):
    """`/why` has no prompt to explain after everything was taken back."""
    provider.script(Turn("One."))
    assert "nothing has been said on this branch yet" in piped("First.", "/rewind 1", "/why")


def test_a_file_that_is_not_there_is_told(provider, piped):
    """The message is sent as it was typed."""
    provider.script(Turn("Which?"))
    assert "there is no file nosuch.py; sent as text" in piped("#nosuch.py explain")
    assert texts(provider) == ["#nosuch.py explain"]


def test_an_export_is_told_once(provider, piped):
    """One line names the file."""
    provider.script(Turn("One."))
    assert piped("First.", "/export").count("s.jsonl") == 1


def test_a_pin_is_taken_back(provider, piped):
    """`/unpin` lets an entry be folded again."""
    provider.script(Turn("One."))
    piped("First.")
    with foveal.open_store("agent.db") as store:
        entry = said_messages(branch_of(store, "s"))[0].id
    told = piped(f"/pin {entry}", f"/unpin {entry}")
    assert f"{entry} is now pinned" in told
    assert f"{entry} is now not pinned" in told


def test_the_scripted_provider_costs_nothing(provider, piped):
    """The line at the foot names no other model and no money, and `/cost` says whose prices it has."""
    told = piped("First.", "/cost", options=("--provider", "scripted"))
    assert re.search(r"^\[scripted, no cost · [\d,]+ of", told, re.MULTILINE)
    assert "at the prices of gpt-5; the scripted provider bills nothing" in told


def test_the_scripted_provider_gives_the_final_answer_without_calls(folder, piped):
    """It looks around once, and calls no tool where the agent asks for the final answer."""
    (folder / "agent.toml").write_text('model = "gpt-5"\ntools = ["list_files"]\nfinalize = "Write it."\n')
    told = piped("First.", options=("--provider", "scripted", "--agent", "agent.toml"))
    assert told.count("→ list_files") == 1
