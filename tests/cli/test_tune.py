"""`foveal tune`: a table, advice in words, and files that can be used as they are."""

import json
from typing import Any

import pytest

from foveal.analysis.tune import GRIDS, Variant
from foveal.session.policy_file import read_policy

TOOL = {"type": "function", "function": {"name": "work", "parameters": {"type": "object", "properties": {}}}}


def conversation(name, steps=30):
    """Reads something at each step, and uses what it read ten steps before."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": f"Go through {name}."}]
    for i in range(steps):
        arguments = json.dumps({"path": f"{name}/file_{i}.py", "edit": f"def {name}_{i - 10}_line_7(value):"})
        call = {"id": f"call_{name}_{i}", "type": "function", "function": {"name": "work", "arguments": arguments}}
        text = "\n".join(f"def {name}_{i}_line_{n}(value): return value * {n + 1000}" for n in range(20))
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": text})
    return {"id": name, "source": "made", "license": "MIT", "model": "gpt-4.1", "tools": [TOOL], "messages": messages}


@pytest.fixture
def traffic(tmp_path):
    """Two sessions in one file."""
    path = tmp_path / "traffic.jsonl"
    path.write_text("".join(json.dumps(conversation(name)) + "\n" for name in ("alpha", "beta")))
    return path


def test_the_table_and_the_advice_are_printed(run, traffic):
    """A line for each policy, the cheapest first; then what to do, at whose prices, and how sure it is."""
    done = run("tune", traffic, "--budget", 4000, "--policies", "small")
    assert done.code == 0, done.err
    head, *lines = done.out.splitlines()
    assert head.split()[:2] == ["policy", "cost"]
    costs = [float(line[head.index("cost") - 1 :].split()[0]) for line in lines[:8]]
    assert costs == sorted(costs)
    said = " ".join(done.out.split())
    assert "2 sessions, 60 model calls; cost at the prices of gpt-4.1." in said
    assert "Keep the default" in said
    assert "Cross-validated: chosen without a fold" in said
    assert "--out policy.toml writes" in said


def test_the_files_are_written(run, traffic, page_blocks, tmp_path):
    """A policy that is read back, a picture, and a document with what was said."""
    out, page, document = tmp_path / "policy.toml", tmp_path / "tune.html", tmp_path / "tune.json"
    words = ("--policies", "small", "--prices", "claude-sonnet-4-5", "--out", out, "--html", page, "--json", document)
    done = run("tune", traffic, "--budget", 4000, *words)
    assert done.code == 0, done.err
    assert read_policy(out).budget_for(1_000_000).sendable == 4000
    report = page_blocks(page)["overview-data"]["report"]
    assert [len(report["charts"][0]["marks"]), len(report["tables"][0]["rows"])] == [8, 8]
    assert " ".join(json.loads(document.read_text())["advice"][-1].split()[:3]) in done.out
    assert json.loads(document.read_text())["prices"] == "claude-sonnet-4-5"
    replayed = run("replay", traffic, "--policy", out, "--json").json
    assert max(session["largest_sent"] for session in replayed["sessions"]) <= 4000


def test_the_cheapest_that_was_asked_for_is_written(run, traffic, tmp_path):
    """By the figures of the table."""
    document = tmp_path / "tune.json"
    words = ("--policies", "small", "--at-least", 0.01, "--json", document)
    assert run("tune", traffic, "--budget", 4000, *words).code == 0
    found = json.loads(document.read_text())
    costs = [tried["point"]["cost"] for tried in found["tried"] if tried["is_sound"]]
    best = next(tried for tried in found["tried"] if tried["variant"] == found["choice"]["best"])
    assert best["point"]["cost"] == min(costs)


def test_nothing_is_written_where_nothing_is_folded(run, traffic, tmp_path):
    """The error says how long the sessions are."""
    done = run("tune", traffic, "--budget", 900_000, "--out", tmp_path / "policy.toml")
    assert done.code == 2
    assert "the longest of 2 session(s) sends" in done.err
    assert "the budget is 900,000" in done.err
    assert not (tmp_path / "policy.toml").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "--budget N is missing"),
        (("--budget", 4000, "--at-most", 0.5, "--at-least", 0.5), "not allowed with"),
        (("--budget", 4000, "--at-most", 40), "above 0 and up to 1"),
        (("--budget", 4000, "--prices", "no-such-model"), "its prices are not known"),
        (("--budget", 4000, "--out", "policy.yaml"), "written as TOML"),
        (("--budget", 4000, "--policies", "huge"), "invalid choice"),
    ],
)
def test_what_cannot_be_done_is_said_before_anything_is_replayed(run, traffic, words, said):
    """In one line."""
    done = run("tune", traffic, *words)
    assert done.code == 2
    assert said in done.err
    assert done.err.count("\n") == 1


def test_without_a_file_the_bundled_session_is_tuned(run, monkeypatch):
    """It is one session, so that the default stands."""
    monkeypatch.setitem(GRIDS, "small", (Variant(),))  # the default alone: the rest is tested on smaller sessions
    done = run("tune", "--policies", "small")
    assert done.code == 0, done.err
    assert "1 session, 86 model calls" in done.out
    assert "Not cross-validated" in done.out
