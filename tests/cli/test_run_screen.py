"""Questions of `foveal run` on a terminal, and a terminal that is not there."""

import signal
import subprocess
import sys

import pytest

import foveal
from foveal.agent.run_log import read_run

from .pseudo_terminal import END, INTERRUPT, PseudoTerminal

GUARDED = 'model = "gpt-5"\ntools = ["list_files"]\n[[approvals]]\ntool = "list_files"\n'
WORDS = ("run", "--agent", "guarded.toml", "--provider", "scripted", "--store", "s.db", "--session", "s", "Look.")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "guarded.toml").write_text(GUARDED)
    return tmp_path


@pytest.fixture
def asked(folder):
    """A terminal on which a run has asked whether a call may be made."""
    terminal = PseudoTerminal(*WORDS, cwd=folder)
    terminal.see("May list_files be called?", "\n>")
    yield terminal
    terminal.close()


def status() -> str | None:
    with foveal.open_store("s.db") as store:
        return read_run(store, "s").status


def test_a_question_is_answered_on_the_terminal(asked):
    """The run goes on in the same command."""
    asked.say("y")
    assert asked.leave() == 0
    assert "s#1: completed" in asked.text


def test_the_end_of_the_input_leaves_the_question_open(asked):
    """Ctrl-D ends the command as a pipe would: with the line that answers it later."""
    asked.type(END)
    assert asked.leave() == 3
    assert "Traceback" not in asked.text
    assert "answer with: " in asked.text
    assert status() == "awaiting_user"


def test_ctrl_c_at_a_question_ends_the_command(asked):
    """At once, with the line that answers it later."""
    asked.type(INTERRUPT)
    assert asked.leave() == 130
    assert "answer with: " in asked.text
    assert status() == "awaiting_user"


def test_a_supervisor_ends_the_command_as_ctrl_c_does(asked):
    """SIGTERM leaves a run that somebody can go on with, and says how."""
    asked.program.send_signal(signal.SIGTERM)
    assert asked.leave() == 143
    assert "answer with: " in asked.text
    assert status() == "awaiting_user"


def test_an_answer_that_cannot_be_used_is_asked_for_again(asked):
    """A slip of the hand ends nothing."""
    asked.say("edit {path")
    asked.see("takes the arguments as a JSON object")
    asked.say("y")
    assert asked.leave() == 0
    assert asked.text.count("May list_files be called?") == 2


def test_a_question_that_somebody_else_has_answered_is_not_asked_for_again(asked, folder):
    """Whoever answers late is told so, and sees the run go on."""
    command = [sys.executable, "-m", "foveal", "resume", "s", "--agent", "guarded.toml", "--decision", "allow"]
    subprocess.run([*command, "--store", "s.db"], check=True, capture_output=True, cwd=folder)
    asked.say("n")
    assert asked.leave() == 0
    assert "or has had its answer" in asked.text.replace("\n", " ")


@pytest.mark.parametrize(("closed", "code"), [("<&-", 3), (">&-", 3), ("<&- >&- 2>&-", 3)])
def test_a_command_whose_streams_are_closed_does_its_work(folder, closed, code):
    """As under a supervisor that gives it none: what would be printed is lost, and nothing else."""
    words = ["sh", "-c", f'exec "$@" {closed}', "sh", sys.executable, "-m", "foveal", *WORDS]
    done = subprocess.run(words, capture_output=True, text=True, cwd=folder, check=False)
    assert (done.returncode, "Traceback" in done.stderr) == (code, False), done.stderr
    assert status() == "awaiting_user"
