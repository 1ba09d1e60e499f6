"""`foveal policy show` and `pin`: what holds, where it comes from, and marks from the command line."""

import re

import pytest

from foveal import Policy, RetentionRule, ToolCall, assistant, open_store, result, user
from foveal.project.retention_layers import Scenario
from foveal.session.model_setup import setup_for
from foveal.session.options import Model
from foveal.session.policy import DEFAULT_STAGES
from foveal.session.session import Session
from foveal.values.retention import Retention

POLICY = """
max_context_tokens = 80_000
recall = false

[toolkits.shell]
tools = ["bash", "git_*"]
mode = "summary"
limit_tokens = 900

[tools.bash]
limit_characters = 4_000

[tools."[rw]*"]
floor = "outline"

[scenarios.ci.tools.bash]
mode = "reference"
hint = "Run it again."
"""


@pytest.fixture
def policy(tmp_path, monkeypatch):
    monkeypatch.delenv("FOVEAL_SCENARIO", raising=False)
    path = tmp_path / "policy.toml"
    path.write_text(POLICY)
    return path


def values(shown, tool):
    return {name: (said["value"], said["from"]) for name, said in shown["tools"][tool].items()}


def test_every_value_has_its_layer(run, policy):
    """Each tool that is named, by the policy or by the caller, has all values of retention with their sources."""
    shown = run("policy", "show", "read", "--policy", policy, "--json").json
    assert set(shown["tools"]) == {"read", "bash", "git_*", "[rw]*"}
    bash = values(shown, "bash")
    assert set(bash) == set(Retention.__struct_fields__)
    assert bash["mode"] == ("summary", "policy, toolkit shell")
    assert bash["limit_tokens"] == (None, "policy, bash")
    assert bash["limit_characters"] == (4_000, "policy, bash")
    assert bash["floor"] == ("covered", "built in")
    assert values(shown, "[rw]*")["floor"] == values(shown, "read")["floor"] == ("outline", "policy, [rw]*")


@pytest.mark.parametrize("by", ["option", "environment"])
def test_a_scenario_is_laid_over_the_policy(run, policy, monkeypatch, by):
    """Picked by the option or by the environment, its values win and say so."""
    if by == "environment":
        monkeypatch.setenv("FOVEAL_SCENARIO", "ci")
    words = ("--scenario", "ci") if by == "option" else ()
    shown = run("policy", "show", "--policy", policy, *words, "--json").json
    assert shown["scenario"] == "ci"
    assert values(shown, "bash")["mode"] == ("reference", "scenario ci, bash")
    assert values(shown, "bash")["limit_characters"] == (4_000, "policy, bash")


def test_the_budget_is_the_models(run, policy):
    """The knob is the policy's; without one the model's window decides."""
    ours = run("policy", "show", "--policy", policy, "--json").json
    assert ours["budget"] == {
        "limit": 80_000,
        "reserve": 8_000,
        "sendable": 72_000,
        "target": 0.6,
        "trigger": None,
        "max_bytes": 20_000_000,
        "max_images": 100,
    }
    built_in = run("policy", "show", "--model", "claude-sonnet-4-5", "--json").json
    assert built_in["budget"]["limit"] == built_in["window"] == 200_000
    assert (ours["recall"], built_in["recall"]) == (False, True)
    assert [stage["fold"] for stage in built_in["stages"]] == [s.__struct_config__.tag for s in DEFAULT_STAGES]


def test_the_page_says_it_in_words(run, policy):
    """For people: the file, the budget, numbered stages, recall, and a row a value."""
    done = run("policy", "show", "--policy", policy, "--scenario", "ci")
    assert (done.code, done.err) == (0, "")
    lines = [" ".join(line.split()) for line in done.out.splitlines()]
    assert lines[0] == f"{policy}, scenario ci"
    assert "limit 80,000" in lines
    assert "1. superseded edited no; written no; last_resort no" in lines
    assert "recall tools: not offered" in lines
    assert "bash mode reference scenario ci, bash" in lines
    assert "limit_characters 4,000 policy, bash" in lines
    assert "Name a TOOL" in run("policy", "show").out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--scenario", "nightly"), "there is no scenario 'nightly' in the policy; known: ci"),
        (("--policy", "absent.toml"), "absent.toml: cannot be read"),
        (("--nosuch",), "--help"),
    ],
)
def test_what_cannot_be_shown_is_one_line(run, policy, words, said):
    """Exit code 2 and a sentence that names what is wrong."""
    done = run("policy", "show", "--policy", policy, *words)
    assert (done.code, done.out) == (2, "")
    assert said in done.err
    assert done.err.count("\n") == 1


def test_a_command_is_asked_for(run):
    assert "--help" in run("policy").err


def test_a_past_prompt_is_explained_by_the_retention_that_it_had(run, tmp_path, monkeypatch):
    """Rules of a scenario and of a tool list hold for `foveal why` where neither is at hand any more."""
    monkeypatch.setenv("FOVEAL_SCENARIO", "ci")
    policy = Policy(scenarios={"ci": Scenario(tools={"list": RetentionRule("reference")})})
    store = open_store(tmp_path / "agent.db")
    with Session(store, "s", model="gpt-5", policy=policy) as session:
        calls = [ToolCall(name, name, "{}") for name in ("list", "read")]
        session.extend((user("Go."), assistant("", *calls), *(result(call.id, "word\n" * 500) for call in calls)))
        session.prompt([{"name": "read", "input_schema": {"type": "object"}, "retention": {"mode": "reference"}}])
    store.close()
    for scenario in ("", "nightly"):
        monkeypatch.setenv("FOVEAL_SCENARIO", scenario)
        lines = run("why", "s", "--store", tmp_path / "agent.db", "--json").json["lines"]
        assert [line["shown"] for line in lines if line["kind"] == "tool"] == ["reference", "reference"]


def folded(run, store):
    lines = run("why", "alpha", "--store", store, "--json").json["lines"]
    return next(line["entry"] for line in lines if line["kind"] == "tool" and line["shown"] != "full")


def shown(run, store, entry):
    lines = run("why", "alpha", "--store", store, "--json").json["lines"]
    return next(line["shown"] for line in lines if line["entry"] == entry)


def test_a_pin_brings_an_entry_back_and_an_unpin_lets_it_go(run, kept):
    """The next prompt shows a pinned entry whole; unpinned, it is shown as before. Asked twice, nothing is written."""
    entry = folded(run, kept)
    before = shown(run, kept, entry)
    done = run("pin", "alpha", entry[:10], "--reason", "the one that matters", "--store", kept)
    assert (done.code, done.out, done.err) == (0, f"{entry} is now pinned\n", "")
    assert shown(run, kept, entry) in ("full", "pinned")
    (card,) = run("sessions", "--store", kept, "--json").json["sessions"]
    assert run("pin", "alpha", entry, "--store", kept).out == f"{entry} was pinned\n"
    assert run("sessions", "--store", kept, "--json").json["sessions"] == [card]
    done = run("pin", "--remove", "alpha", entry, "--store", kept, "--json").json
    said = {"session": "alpha", "entry": entry, "tool": "", "text": ""}
    assert done == {**said, "pinned": False, "changed": True}
    assert shown(run, kept, entry) == before
    assert run("pin", "--remove", "alpha", entry, "--store", kept).out == f"{entry} was not pinned\n"


def test_a_passage_and_a_tool_can_be_pinned(run, kept):
    """A passage that stands in the entry, and all results of a tool; what is not there is an error."""
    entry = folded(run, kept)
    text = run("recall", "alpha", entry[:10], "--store", kept).out.splitlines()[0]
    assert run("pin", "alpha", entry, "--text", text, "--store", kept).out == f"{entry} is now pinned\n"
    assert text in run("show", "alpha", "--store", kept).out
    assert "does not stand in entry" in run("pin", "alpha", entry, "--text", "nowhere", "--store", kept).err
    assert run("pin", "alpha", "--tool", "read", "--store", kept).out == "read: its results are now pinned\n"
    assert run("pin", "--remove", "alpha", "--tool", "read", "--store", kept, "--json").json["changed"]
    assert "one of the two" in run("pin", "alpha", "--store", kept).err


@pytest.mark.parametrize("command", [("pin",), ("pin", "--remove")], ids=" ".join)
def test_what_cannot_be_pinned_is_named(run, kept, command):
    """An unknown entry, an unknown session, and an entry that is no message."""
    assert "no entry begins with 'zzz'" in run(*command, "alpha", "zzz", "--store", kept).err
    assert "it has alpha" in run(*command, "nobody", "zzz", "--store", kept).err
    store = open_store(kept)
    setup = next(row.id for row in store.rows("alpha") if row.payload.startswith(b'={"is":"setup"'))
    store.close()
    assert "is a setup; only messages are pinned" in run(*command, "alpha", setup, "--store", kept).err


def test_an_entry_of_a_branch_that_was_left_is_not_pinned(run, tmp_path):
    """No prompt would show it, so nobody is told that it is pinned."""
    store = open_store(tmp_path / "agent.db")
    with Session(store, "s", model="gpt-5") as session:
        first = session.append(user("one"))
        left = session.append(user("two"))
        session.branches.rewind(first.id)
        session.prompt()
    store.close()
    assert "branch of session 's' that was left" in run("pin", "s", left.id, "--store", tmp_path / "agent.db").err


def test_a_session_that_somebody_writes_is_left_alone(run, tmp_path):
    """The error names the holder, and nothing is written."""
    store = open_store(tmp_path / "agent.db")
    with Session(store, "s", model="gpt-5") as session:
        entry = session.append(user("Hi."))
        session.prompt()
        seq = session.view.facts.seq
        done = run("pin", "s", entry.id, "--store", tmp_path / "agent.db")
        assert done.code == 2
        assert re.search(r"session s is held by .*\(pid \d+\)", done.err)
        assert "nothing was written" in done.err
        session.append(user("Still mine."))
        assert session.view.facts.seq == seq + 1
    store.close()


def test_a_session_without_a_prompt_can_be_pinned(run, tmp_path):
    """A pin needs no model; the first prompt keeps to it."""
    path = tmp_path / "agent.db"
    store = open_store(path)
    with Session(store, "s", model="gpt-5") as session:
        first = session.append(user("one"))
        session.append(user("two"))
    store.close()
    assert run("pin", "s", first.id[:10], "--store", path).out == f"{first.id} is now pinned\n"
    store = open_store(path)
    with Session(store, "s", model="gpt-5") as session:
        session.append(user("three"))
        session.prompt()
        assert session.view.atoms[0].pinned
    store.close()
    assert run("pin", "--remove", "s", first.id, "--store", path).out == f"{first.id} is now not pinned\n"


def test_a_pin_after_a_rewind_stays_on_the_branch(run, tmp_path):
    """The mark follows the newest entry; what was left behind is left alone."""
    path = tmp_path / "agent.db"
    store = open_store(path)
    with Session(store, "s", model="gpt-5") as session:
        first = session.append(user("one"))
        session.append(user("two"))
        session.branches.rewind(first.id)
    store.close()
    assert run("pin", "s", first.id, "--store", path).code == 0
    store = open_store(path)
    with Session(store, "s", model="gpt-5") as session:
        assert [item.id for atom in session.view.atoms for item in atom.items] == [first.id]
        assert session.view.atoms[0].pinned
    store.close()


def test_the_limit_is_the_one_that_a_session_keeps(run):
    """Of a model that takes less input than its window holds, as `Session` counts it; `foveal models` has the same column."""
    shown = run("policy", "show", "--model", "gpt-5")
    assert "budget for gpt-5: input limit 272,000 (window 400,000, output 128,000)" in shown.out
    limit = setup_for(Model("gpt-5"), Policy()).budget.sendable
    assert run("policy", "show", "--model", "gpt-5", "--json").json["budget"]["sendable"] == limit == 272_000
    head, row = run("models", "gpt-5").out.splitlines()[:2]
    assert (head.split()[1:3], row.split()[1]) == (["input", "limit"], "272,000")


def test_the_layers_are_told_in_their_order(run):
    """As docs/retention.md has them: the author of a tool comes before the file."""
    said = " ".join(run("policy", "show", "--help").out.split())
    assert "built in, definition, toolkit, pattern, exact name, scenario, call" in said
