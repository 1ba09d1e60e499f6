"""`foveal run`, `foveal runs` and `foveal resume`: a task from its first word to its cost, without a key and without a
network."""

import io
import json
import re
import shlex
import signal
import subprocess
import sys

import msgspec
import pytest

import foveal
from foveal.agent.next_step import DECISIONS
from foveal.agent.run_marks import RunBegan, StatusSet, UserAsked, to_note
from foveal.agent.tools import UserQuestion
from foveal.cli import main
from foveal.cli.run_screen import question_line
from foveal.testing.provider import Call, ScriptedProvider, Turn

AGENT = 'model = "gpt-5"\ninstructions = "You look."\ntools = ["list_files"]\n[[approvals]]\ntool = "list_files"\n'


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "GEMINI_API_KEY", "GOOGLE_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "guarded.toml").write_text(AGENT)
    return tmp_path


def run(*words: str) -> int:
    return main([*words, "--store", "agent.db"])


SCRIPTED = ("--provider", "scripted")


def test_a_task_is_run_and_told(capsys):
    """Words and calls as they come; the last line has steps, calls and cost."""
    assert run("run", *SCRIPTED, "--session", "s", "Look.") == 0
    shown = capsys.readouterr()
    assert "I look around first." in shown.err
    assert "→ list_files {}" in shown.err
    assert "s#1: completed, 2 steps, 2 model calls, $" in shown.err
    assert shown.err.rstrip().endswith("of which the scripted provider bills nothing")


def test_a_program_reads_the_answer_alone(capsys):
    """Where the output is no terminal, calls and other words go to stderr: `foveal run … > answer.txt` has the answer."""
    assert run("run", *SCRIPTED, "--session", "s", "Look.") == 0
    assert capsys.readouterr().out == (
        "This is the scripted provider: nobody has thought about it, but everything else was real.\n"
    )


def test_a_task_is_read_from_standard_input(monkeypatch, capsys):
    """In place of `-`, so that a program can write it."""
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"Schau.\n")))
    assert run("run", *SCRIPTED, "--session", "s", "-") == 0
    capsys.readouterr()
    run("runs", "show", "s", "--events", "user_spoke")
    assert "text: Schau." in capsys.readouterr().out


@pytest.mark.parametrize(("word", "given"), [("  ", b"x"), ("-", b" \n"), ("-", b"\xff\xfe\x00")])
def test_a_task_without_words_is_told_before_anything_is_kept(monkeypatch, folder, capsys, word, given):
    """No model is asked about nothing, and none about bytes that are no text."""
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(given)))
    assert run("run", *SCRIPTED, word) == 2
    assert re.search("the task is empty|is no text in UTF-8", capsys.readouterr().err)
    assert not (folder / "agent.db").exists()


def test_the_error_of_a_tool_names_it(capsys):
    """Of several calls that were made at once, one knows which has failed."""
    run("run", *SCRIPTED, "--agent", "guarded.toml", "--session", "s", "Look.")
    assert run("resume", "s", "no", *SCRIPTED, "--agent", "guarded.toml") == 0
    assert "  list_files error: [denied by the user" in capsys.readouterr().err


def test_one_document_for_programs(capsys):
    """With the outcome and its cost."""
    assert run("run", *SCRIPTED, "--session", "s", "--json", "Look.") == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["outcome"]["status"], told["outcome"]["run"], told["calls"]) == ("completed", "s#1", 2)


def test_files_come_with_the_task(folder, capsys):
    """Each `--file` is attached; one that is not there is told before anything is kept."""
    (folder / "notes.md").write_text("Buy milk.")
    assert run("run", *SCRIPTED, "--session", "s", "--file", "notes.md", "--file", "missing.md", "Look.") == 2
    assert "missing.md cannot be sent: No such file" in capsys.readouterr().err
    assert run("run", *SCRIPTED, "--session", "s", "--file", "notes.md", "Look.") == 0
    assert run("runs", "show", "s") == 0
    assert "file_attached    text: [file notes.md: text, text/markdown, 1 line, 9 bytes" in capsys.readouterr().out


def test_the_cost_of_a_run_tells_its_thinking(capsys):
    """Beside the output, of which it is a part; where the provider says nothing, so does the table."""
    with foveal.open_store("agent.db") as store:
        for session, told in (("s", 7), ("t", None)):
            with foveal.Session(store, session, model="gpt-5") as opened:
                began, ended = map(to_note, (RunBegan(1, "agent"), StatusSet("completed", 1, "agent")))
                opened.extend([began, foveal.Usage("gpt-5", 10, 9, reasoning_tokens=told), ended])
    rows = []
    for session in ("s", "t"):
        assert run("runs", "cost", session) == 0
        rows.append(next(line.split() for line in capsys.readouterr().out.splitlines() if "gpt-5" in line))
    assert [row[2:6] for row in rows] == [["1", "10", "9", "7"], ["1", "10", "9", "not"]]


def test_events_of_some_kinds_are_shown(capsys):
    """Of the kinds that are named, in their order; a wrong name is told with the nearest."""
    run("run", *SCRIPTED, "--session", "s", "Look.")
    capsys.readouterr()
    assert run("runs", "show", "s", "--events", "tool_called", "--events", "run_ended", "--json") == 0
    assert [one["is"] for one in json.loads(capsys.readouterr().out)["events"]] == ["tool_called", "run_ended"]
    assert run("runs", "show", "s", "--events", "tool_caled") == 2
    assert "Did you mean tool_called" in capsys.readouterr().err


def test_without_a_key_it_says_what_to_set(capsys):
    """And how to try it without one."""
    assert run("run", "Look.") == 2
    said = capsys.readouterr().err
    assert "ANTHROPIC_API_KEY" in said
    assert "--provider scripted" in said


def test_a_run_waits_is_listed_and_goes_on(capsys):
    """The question says how to answer; `resume` allows the call, in another process if need be."""
    assert run("run", *SCRIPTED, "--agent", "guarded.toml", "--session", "s", "Look.") == 3
    assert "s#1 waits: May list_files be called?" in capsys.readouterr().err
    assert run("runs", "--status", "awaiting_user") == 0
    assert "s#1  guarded  awaiting_user" in capsys.readouterr().out
    assert run("resume", "s", *SCRIPTED, "--agent", "guarded.toml", "--decision", "allow") == 0
    assert "s#1: completed" in capsys.readouterr().err


def test_a_denial_has_a_reason(capsys):
    """Which the model is told."""
    run("run", *SCRIPTED, "--agent", "guarded.toml", "--session", "s", "Look.")
    assert run("resume", "s#1", "not today", *SCRIPTED, "--agent", "guarded.toml", "--decision", "deny") == 0
    assert "[denied by the user: not today]" in capsys.readouterr().err


@pytest.mark.parametrize("word", ["allow", "yes", "Y"])
def test_words_that_allow_on_a_terminal_allow_here(capsys, word):
    """`foveal resume ID yes` makes the call: an answer means the same wherever it is given."""
    run("run", *SCRIPTED, "--agent", "guarded.toml", "--session", "s", "Look.")
    assert run("resume", "s", word, *SCRIPTED, "--agent", "guarded.toml") == 0
    assert run("runs", "show", "s", "--events", "tool_ended") == 0
    assert "status: ok" in capsys.readouterr().out


def waiting(*questions: UserQuestion) -> None:
    """Keep the run `w#1` of the agent `guarded`, which waits for the answers to these questions."""
    with foveal.open_store("agent.db") as store, foveal.Session(store, "w", model="gpt-5") as session:
        asked = (UserAsked(one) for one in questions)
        marks = (
            RunBegan(1, "guarded"),
            StatusSet("running", 1, "guarded"),
            *asked,
            StatusSet("awaiting_user", 1, "guarded"),
        )
        session.extend([*map(to_note, marks), foveal.user("Look.")])


def approval(number: int) -> UserQuestion:
    """The question whether call `number` of a tool may be made."""
    return UserQuestion(
        f"w/v{number}:approval", "approval", f"May it {number}?", DECISIONS, "list_files", f'{{"n": {number}}}'
    )


def commands_in(err: str) -> list[list[str]]:
    """The words of the commands behind "answer with:", without the program."""
    lines = [shlex.split(line.partition("answer with: ")[2]) for line in err.splitlines() if "answer with: " in line]
    return [words[words.index("resume") :] for words in lines]


def test_each_of_several_questions_is_shown_with_its_command(capsys):
    """Pasted as it is, it answers that question and no other."""
    waiting(approval(1), approval(2))
    assert run("resume", "w", *SCRIPTED, "--agent", "guarded.toml") == 2
    said = capsys.readouterr().err
    assert "Python" not in said
    assert "resume(" not in said
    assert [words[:5] for words in commands_in(said)] == [
        ["resume", "w#1", "allow", "--question", f"w/v{number}:approval"] for number in (1, 2)
    ]


def test_an_answer_to_one_of_several_questions_must_name_it(capsys):
    """Whoever answers none in particular is told how many are open, with the command of each."""
    waiting(approval(1), approval(2))
    assert run("resume", "w", "allow", *SCRIPTED, "--agent", "guarded.toml") == 2
    said = capsys.readouterr().err
    assert "has 2 open questions; name the one that is answered" in said
    assert len(commands_in(said)) == 2


def test_the_question_of_a_tool_is_shown_with_a_command_that_fits_it(capsys):
    """It takes an answer: no decision about a call, and no name where there is one question."""
    waiting(UserQuestion("w/v1", "question", "Which one?", ("red", "blue")))
    assert run("resume", "w", *SCRIPTED, "--agent", "guarded.toml") == 2
    assert commands_in(capsys.readouterr().err)[0][:4] == ["resume", "w#1", "ANSWER", "--agent"]
    assert run("resume", "w", *SCRIPTED, "--agent", "guarded.toml", "--decision", "allow") == 2
    assert "give an answer, no --decision" in capsys.readouterr().err


def left_behind(agent: str = "default") -> None:
    """Keep the run `d#1`, whose process has died at work."""
    with foveal.open_store("agent.db") as store, foveal.Session(store, "d", model="gpt-5") as session:
        marks = (RunBegan(1, agent), StatusSet("running", 1, agent))
        session.extend([*map(to_note, marks), foveal.user("Look.")])


@pytest.mark.parametrize("words", [("runs",), ("runs", "show", "d")])
def test_a_run_that_was_left_behind_is_shown_as_such(capsys, words):
    """By the list and by itself, with the command that goes on with it."""
    left_behind()
    assert run(*words) == 0
    shown = capsys.readouterr().out
    assert "running, left behind" in shown
    assert "resume 'd#1' --store agent.db goes on with it" in shown


def test_nobody_waits_for_a_run_that_was_left_behind(capsys, monkeypatch):
    """No process has it and no worker takes it up: the command says so and ends with 3."""
    monkeypatch.setattr("foveal.cli.runs._LOOK_S", 0.01)
    monkeypatch.setattr("foveal.cli.runs._LEFT_S", 0.02)
    left_behind("guarded")
    assert run("runs", "wait", "d") == 3
    said = capsys.readouterr().err
    assert "d#1 was left behind" in said
    assert "resume 'd#1' --agent FILE --store agent.db goes on with it" in said


@pytest.mark.parametrize("words", [("runs",), ("runs", "wait", "w")])
def test_the_question_that_a_run_waits_for_is_shown(capsys, words):
    """By the list and by whoever waits for the run, with the call that it is about."""
    waiting(approval(1))
    assert run(*words) in (0, 3)
    said = capsys.readouterr()
    assert 'May it 1? (list_files {"n": 1}) [allow/deny/edit/always]' in said.out + said.err


LONG = f"cd x && {'y' * 4_900} postgres://u:;{'z' * 90};@h; rm -rf \\u0000 end"
"""An argument of five thousand characters, with a part that looks like a password."""


@pytest.mark.parametrize(
    "words", [("runs", "show", "w"), ("runs", "wait", "w"), ("resume", "w", *SCRIPTED, "--agent", "guarded.toml")]
)
def test_whoever_may_answer_sees_the_whole_call(capsys, words):
    """Nothing is left out of it, whatever it looks like; the list of many runs says that it shows a part."""
    waiting(msgspec.structs.replace(approval(1), arguments=f'{{"folder": "{LONG}"}}'))
    run(*words)
    said = capsys.readouterr()
    assert f'(list_files {{"folder": "{LONG}"}}) [allow/deny/edit/always]' in said.out + said.err
    run("runs")
    assert "yyy …) [allow/deny/edit/always]" in capsys.readouterr().out


def test_a_run_that_asks_shows_the_whole_call(capsys):
    """The line of the call itself says that it shows a part."""
    with ScriptedProvider() as provider:
        provider.script(Turn("", (Call("c1", "list_files", {"folder": LONG}),)))
        model = ("--model", f"openai:gpt-5@{provider.url}/v1")
        assert run("run", "--agent", "guarded.toml", *model, "--session", "s", "Look.") == 3
    said = capsys.readouterr().err
    assert json.dumps(LONG) in said
    assert "yyy …\n" in said


def test_a_call_that_is_asked_about_shows_what_it_would_hide():
    """Escapes, new lines and turned text are shown by pictures and numbers: the question is one line."""
    hidden = msgspec.structs.replace(approval(1), arguments='{"n":\n\t"a\x1b[2K\r\u202eb"}')
    assert '{"n":␊␉"a␛[2K␍⟨U+202E⟩b"}' in question_line(hidden)


def test_runs_are_listed_beside_one_whose_question_cannot_be_read(capsys, monkeypatch):
    """Its line says so: the damage of one log hides no other run."""

    def damaged(runs: object, run: str) -> None:
        raise foveal.errors.StoreError("entry 3 is damaged")

    waiting(approval(1))
    left_behind()
    monkeypatch.setattr("foveal.cli.runs.Runs.outcome", damaged)
    assert run("runs") == 0
    shown = capsys.readouterr().out
    assert "cannot be read: entry 3 is damaged" in shown
    assert "running, left behind" in shown


def test_whoever_waits_for_a_run_is_shown_the_command_that_answers_it(capsys):
    """With a place for the agent's file, which this command was not told."""
    waiting(approval(1))
    assert run("runs", "wait", "w") == 3
    assert commands_in(capsys.readouterr().err) == [
        ["resume", "w#1", "allow", "--agent", "FILE", "--store", "agent.db"]
    ]


def test_a_run_is_shown_with_its_tree_and_cost(capsys):
    """Its kept events, its children and its calls."""
    run("run", *SCRIPTED, "--session", "s", "Look.")
    capsys.readouterr()
    assert [run("runs", verb, "s") for verb in ("show", "tree", "cost", "audit", "wait")] == [0, 0, 0, 0, 0]
    shown = capsys.readouterr().out
    assert "tool_ended" in shown
    assert "gpt-5" in shown
    assert run("runs", "show", "s", "--json") == 0
    assert json.loads(capsys.readouterr().out)["run"]["status"] == "completed"


def test_the_audit_trail_tells_which_call_was_decided_about(capsys):
    """With its tool and its arguments, and the second in which it was."""
    waiting(approval(1))
    assert run("runs", "audit", "w") == 0
    line = next(line for line in capsys.readouterr().out.splitlines() if "wait_user.request" in line)
    assert 'list_files {"n": 1}' in line
    assert re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC", line)


def test_the_events_of_a_run_are_told_in_words(capsys):
    """The tokens of a model call, and the second of each event."""
    run("run", *SCRIPTED, "--session", "s", "Look.")
    capsys.readouterr()
    assert run("runs", "show", "s", "--events", "usage") == 0
    line = capsys.readouterr().out.splitlines()[2]
    assert re.search(r":\d\d:\d\d UTC  usage +usage: gpt-5, [\d,]+ tokens in, \d+ out", line)


@pytest.mark.parametrize("words", [("run", "--session", "s", "And now?"), ("resume", "s#1")])
def test_a_session_that_is_held_is_told_with_what_a_command_can_do(capsys, monkeypatch, words):
    """By the program that has it: no option of a command takes it over."""
    monkeypatch.setattr("foveal.agent.runs.LETTING_GO_S", 0.1)
    run("run", *SCRIPTED, "--session", "s", "Look.")
    with foveal.open_store("agent.db") as store, foveal.Session(store, "s", model="gpt-5"):
        assert run(*words, *SCRIPTED) == 2
    said = capsys.readouterr().err
    assert re.search(r"session s is held by .*\(pid \d+\)", said)
    assert "or close that program" in said
    assert "takeover" not in said


def test_a_verb_that_there_is_not_is_told_with_all_once(capsys):
    """One list of them, in the order of the help."""
    foveal.open_store("agent.db").close()
    assert run("runs", "list") == 2
    assert capsys.readouterr().err.count("audit") == 1


def test_a_waiting_run_is_cancelled(capsys):
    """Without its agent."""
    run("run", *SCRIPTED, "--agent", "guarded.toml", "--session", "s", "Look.")
    assert run("runs", "cancel", "s", "--reason", "too late") == 0
    run("runs")
    assert "cancelled" in capsys.readouterr().out
    assert run("runs", "pause", "s") == 2


def test_a_run_is_left_to_workers(capsys):
    """`--detach` names it and returns; a worker finds it in the store, ends it, and ends when it is told to."""
    assert run("run", *SCRIPTED, "--session", "s", "--detach", "Look.") == 0
    assert capsys.readouterr().out == "s#1\n"
    words = ["runs", "work", *SCRIPTED, "--store", "agent.db", "--at-once", "2"]
    with subprocess.Popen([sys.executable, "-m", "foveal", *words], stdout=subprocess.PIPE, text=True) as worker:
        assert run("runs", "wait", "s", "--timeout", "60") == 0
        worker.send_signal(signal.SIGTERM)
        said = worker.communicate()[0]
    assert (worker.returncode, said.partition(",")[0]) == (0, "worker for default")


def test_a_resumption_is_left_to_workers(capsys):
    """The answer is in the log, and the run is under way without anybody who drives it."""
    run("run", *SCRIPTED, "--agent", "guarded.toml", "--session", "s", "Look.")
    given = ("--agent", "guarded.toml", "--decision", "allow", "--detach", "--json")
    capsys.readouterr()
    assert run("resume", "s", *SCRIPTED, *given) == 0
    assert json.loads(capsys.readouterr().out) == {"run": "s#1", "status": "running"}
    run("runs", "show", "s")
    assert "answer_given" in capsys.readouterr().out


def test_sessions_are_listed_without_inboxes(capsys):
    """Those are no conversations, and belong to the session beside them."""
    run("run", *SCRIPTED, "--agent", "guarded.toml", "--session", "s", "Look.")
    run("runs", "cancel", "s")
    capsys.readouterr()
    assert run("sessions", "--json") == 0
    assert [one["id"] for one in json.loads(capsys.readouterr().out)["sessions"]] == ["s"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("runs", "shw", "s"), "Did you mean show"),
        (("runs", "show"), "a verb takes the id of one run: foveal runs show ID"),
        (("runs", "resume"), "a verb takes the id of one run: foveal runs resume ID"),
        (("runs", "work", "s"), "`work` takes no run"),
        (("runs", "show", "nothing"), "there is no run 'nothing'"),
        (("resume", "s", *SCRIPTED), "is one of the agent 'guarded'"),
        (("resume", "s", *SCRIPTED, "--agent", "guarded.toml"), "waits for an answer"),
        (("resume", "s", *SCRIPTED, "--agent", "guarded.toml", "--decision", "edit"), "come together"),
        (("resume", "s", "yes", *SCRIPTED, "--agent", "guarded.toml", "--arguments", "{}"), "come together"),
        (("run", "--agent", "none.toml", "Look."), "cannot be read"),
        (("run", *SCRIPTED, "--workspace", "nowhere", "Look."), "is no folder"),
    ],
)
def test_mistakes_are_told(capsys, words, said):
    """In one line, with what to do."""
    run("run", *SCRIPTED, "--agent", "guarded.toml", "--session", "s", "Look.")
    capsys.readouterr()
    assert run(*words) == 2
    assert said in capsys.readouterr().err


def test_a_run_that_has_ended_is_not_cancelled(capsys):
    """Neither the newest of a session nor one before it: both are told by their status."""
    for _ in range(2):
        run("run", *SCRIPTED, "--session", "s", "Look.")
    for name in ("s", "s#1"):
        assert run("runs", "cancel", name) == 2
        assert "is completed already; there is nothing to cancel" in capsys.readouterr().err
