"""`foveal view`: pages of stored sessions and of recordings."""

import json
import os
import re
import signal
import stat
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

import foveal


@pytest.fixture
def alone(tmp_path, monkeypatch):
    """An empty folder, without a store by default."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FOVEAL_STORE", raising=False)
    return tmp_path


def test_a_stored_session_becomes_one_file(run, kept, tmp_path):
    """The page is written whole, says how large it is, and only its owner can read it."""
    out = tmp_path / "alpha.html"
    ran = run("view", "alpha", "--store", kept, "--html", out)
    assert ran.code == 0
    assert re.search(r"alpha\.html: 1 session, 7 calls, 0\.\d MB", ran.out)
    assert out.read_text().startswith("<!DOCTYPE html>")
    if os.name == "posix":
        assert stat.S_IMODE(out.stat().st_mode) == 0o600


def test_a_recording_is_replayed(run, recorded, tmp_path):
    """All sessions of a file are in its page."""
    out = tmp_path / "two.html"
    ran = run("view", recorded("alpha", "beta"), "--budget", 8000, "--html", out, "--json")
    assert ran.json == {"html": str(out), "bytes": out.stat().st_size, "sessions": 2, "calls": 14}


def test_a_policy_is_read(run, recorded, tmp_path):
    """A recording can be shown under a policy file of one's own."""
    policy = tmp_path / "policy.toml"
    policy.write_text("[budget]\nlimit = 6000\nreserve = 0\n")
    assert run("view", recorded("alpha"), "--policy", policy, "--html", tmp_path / "out.html").code == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("nobody.jsonl", "--html", "out.html"), "nobody.jsonl is neither a file here nor a session of a store"),
        (
            ("other", "--store", "STORE", "--html", "out.html"),
            "there is no session 'other' in this store; it has alpha",
        ),
        (("alpha", "--store", "STORE", "--budget", "9", "--html", "out.html"), "--budget is for recordings"),
        (
            ("alpha", "--store", "STORE", "--compare", "0", "--html", "out.html"),
            "--compare: '0' is not a number above zero",
        ),
    ],
)
def test_a_mistake_is_explained(run, kept, alone, words, said):
    """The error says what is there and what to write; no file is left."""
    ran = run("view", *(str(kept) if word == "STORE" else word for word in words))
    assert ran.code == 2
    assert said in ran.err
    assert not (alone / "out.html").exists()


def test_a_file_that_is_no_recording_is_named(run, tmp_path):
    """A damaged recording is an error with its place, and not an empty page."""
    bad = tmp_path / "bad.jsonl"
    bad.write_text("{nothing\n")
    ran = run("view", bad, "--html", tmp_path / "out.html")
    assert ran.code == 2
    assert "bad.jsonl" in ran.err


def test_two_budgets_are_compared(run, recorded, tmp_path):
    """The second way is named like the first; the same again is a mistake."""
    file = recorded("alpha")
    assert run("view", file, "--budget", 8000, "--compare", 16000, "--html", tmp_path / "out.html").code == 0
    ran = run("view", file, "--budget", 8000, "--compare", 8_000, "--html", tmp_path / "out.html")
    assert ran.code == 2
    assert "--compare 8000 is the same" in ran.err


def test_without_a_name_and_without_agents_it_says_what_to_name(run, alone, monkeypatch):
    """A machine without sessions is told how to show one."""
    monkeypatch.setattr(Path, "home", lambda: alone)
    for variable in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "PI_CODING_AGENT_DIR", "XDG_DATA_HOME"):
        monkeypatch.delenv(variable, raising=False)
    ran = run("view", "--no-open")
    assert ran.code == 2
    assert "no agent that we know has kept a session here" in ran.err


def test_pages_are_served_until_the_user_ends_it(kept):
    """The address is printed and answers; Ctrl-C is a good end."""
    command = [sys.executable, "-m", "foveal", "view", "--store", str(kept), "--no-open", "--json"]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509 - ignored in a job of the background
    ) as process:
        assert process.stdout
        told = json.loads(process.stdout.readline())
        with urllib.request.urlopen(told["url"], timeout=30) as answer:  # noqa: S310 - our own address
            assert answer.read().startswith(b"<!DOCTYPE html>")
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0
    assert set(told) == {"url"}


def test_a_session_without_a_prompt_does_not_hide_the_others(run, kept, tmp_path):
    """It is named on stderr, and the page has the rest."""
    with foveal.open_store(kept) as store, foveal.Session(store, "silent", model="gpt-5") as session:
        session.append(foveal.user("Hello."))
    ran = run("view", "--store", kept, "--html", tmp_path / "all.html", "--json")
    assert (ran.code, ran.json["sessions"]) == (0, 1)
    assert "session 'silent' has no prompt yet" in ran.err
    assert run("view", "silent", "--store", kept, "--html", tmp_path / "silent.html").code == 2
