"""`foveal demo`: the first thing that anybody sees."""

import json
import os
import re
import subprocess
import sys

import pytest


@pytest.fixture
def demo(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["-c"])  # commands are named as the program was called
    return lambda *words: run("demo", *words)


def test_it_tells_cost_cache_picture_and_savings(demo):
    """Everything that a newcomer wants to see is on one screen or two, within 80 columns."""
    done = demo()
    assert (done.code, done.err) == (0, "")
    assert all(len(line) <= 80 for line in done.out.splitlines()[:-1])  # the last is an address
    for words in (
        "252 messages",
        "86 model calls",
        "16,000 tokens",
        "read from cache",
        "$",
        "largest prompt",
        "prefix moves",
    ):
        assert words in done.out.replace("\n", " ")
    assert "░" in done.out
    assert "▲ fold" in done.out
    assert done.out.count("tokens not sent again") == 3
    assert "`bash: python -m unittest 2>&1` (call 3)" in done.out.replace("\n   ", " ")


def test_it_stays_within_the_budget(demo):
    """No prompt is above the limit, none is refused, and most of the tokens are gone."""
    (session,) = demo("--json").json["sessions"]
    assert session["limit"] == 16_000
    assert session["largest_sent"] <= 16_000 < session["largest_raw"]
    assert session["refusals"] == 0
    assert session["sent_tokens"] < session["raw_tokens"] / 3
    assert session["sent_usd"] < session["raw_usd"]


def test_the_commands_it_names_work(demo, run):
    """What is printed as the next step can be typed as it stands; a second demo starts anew."""
    demo()
    done = demo()
    next_steps = [line.split()[1:] for line in done.out.splitlines() if line.startswith("  foveal ")]
    assert [words[0] for words in next_steps] == ["why", "why", "show", "recall", "replay", "view"]
    for words in next_steps[:-2]:
        ran = run(*words)
        assert (ran.code, ran.err) == (0, "")
        assert ran.out


def test_it_ends_with_the_page_of_the_session(demo, tmp_path):
    """The last line is the address of a page that holds every call, for the browser."""
    address = demo().out.splitlines()[-1]
    path = tmp_path / ".foveal" / "demo.html"
    assert address == path.as_uri()
    text = path.read_text()
    assert text.startswith("<!DOCTYPE html>")
    assert "session-0" in text


def test_budget_and_model_can_be_changed(demo):
    """A larger budget folds less; a model of another price costs otherwise."""
    small, large, other = (demo("--json", *o).json["total"] for o in ((), ("--budget", 40_000), ("--model", "gpt-4.1")))
    assert large["prefix_moves"] < small["prefix_moves"]
    assert large["sent_tokens"] > small["sent_tokens"]
    assert other["raw_usd"] != small["raw_usd"]


def test_a_stream_without_unicode_gets_ascii(tmp_path):
    """Where the encoding cannot draw, the picture is drawn with what it has."""
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(
        [sys.executable, "-m", "foveal", "demo"], capture_output=True, cwd=tmp_path, env=environment, check=True
    )
    assert "^ fold" in done.stdout.decode("ascii")


def test_the_same_demo_twice_is_the_same(demo):
    """The replay is deterministic, down to the references."""
    assert json.dumps(demo("--json").json) == json.dumps(demo("--json").json)


def test_a_budget_that_holds_no_prompt_is_told_first(run, tmp_path, monkeypatch):
    """Before anything is printed or kept, with the size that would do."""
    monkeypatch.chdir(tmp_path)
    done = run("demo", "--budget", 100)
    assert (done.code, done.out) == (2, "")
    found = re.fullmatch(
        r"foveal: 100 tokens hold no prompt of this session; the smallest budget is about ([\d,]+)\n", done.err
    )
    assert found
    assert run("demo", "--budget", found[1]).code == 0
