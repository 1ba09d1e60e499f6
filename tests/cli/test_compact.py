"""`foveal compact`, and what `foveal why` and `foveal policy show` tell of compaction."""

import shlex
from collections.abc import Iterator
from contextlib import closing

import msgspec
import pytest

from foveal import Host, RetentionRule, ToolCall, assistant, open_store, result, user
from foveal.fit.scene import Scene
from foveal.session.policy import BudgetTable, Compact, Policy
from foveal.session.session import Session
from foveal.testing import oracles
from foveal.testing.provider import RawReply, Refusal, ScriptedProvider
from foveal.values.entry import PartFold

GOOD = "\n".join(f"## {name}\nnone" for name in ("Constraints", "State", "Decisions", "Next"))
PROSE = f"## Goal\nSee what is in every file of alpha.\n{GOOD}"


@pytest.fixture
def long(run, recorded, tmp_path):
    """A store with a session that has much to fold."""
    store = tmp_path / "long.db"
    assert run("replay", recorded("alpha", steps=30, size=40), "--budget", 12_000, "--store", store).code == 0
    return store


@pytest.fixture
def endpoint(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with ScriptedProvider() as running:
        yield running


def entries(store, name="alpha"):
    opened = open_store(store)
    rows = list(opened.rows(name))
    opened.close()
    return rows


def prompt_of(store, rewind_to=None):
    """The next prompt of the stored session as it would be sent, after a rewind if one is asked for."""
    opened = open_store(store)
    policy = Policy(budget=BudgetTable(limit=12_000, reserve=0))
    with Session(opened, "alpha", model="gpt-5", policy=policy) as session:
        if rewind_to:
            session.branches.rewind(rewind_to)
        body = oracles.body(session.prompt())
    opened.close()
    return body


def test_a_stored_session_is_folded_now(run, long):
    """Half of it goes; the output says how much, what stands for what, and who wrote it."""
    done = run("compact", "alpha", "--store", long)
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    assert lines[0].startswith("alpha: ")
    assert "tokens of messages became" in lines[0]
    assert "are billed anew" in lines[1]
    assert "summary by code" in done.out
    trace = run("why", "alpha", "--store", long, "--json").json
    (gap,) = [line for line in trace["lines"] if line["kind"] == "range"]
    assert gap["entry"] in done.out
    assert f"{gap['raw_tokens']:,}" in done.out


def test_as_a_document(run, long):
    """Everything that the page says, in numbers."""
    done = run("compact", "alpha", "--store", long, "--json").json
    assert (done["session"], done["folded"], done["dry_run"], done["author"], done["refused"]) == (
        *("alpha", True, False, "code", None),
    )
    assert done["after"] < done["before"] * 0.6
    assert done["reason"] == "asked for by hand"
    (covered,) = done["covered"]
    assert covered["shown"] == "summary"
    assert f"\n[Summary of {covered['entries']} earlier messages" in done["summary"]
    trace = run("why", "alpha", "--store", long, "--json").json
    assert sum(line["tokens"] for line in trace["lines"]) == done["after"]


def test_it_is_undone_by_the_command_that_it_prints(run, long):
    """The prompt after the rewind is the prompt before the fold, to the byte."""
    before = prompt_of(long)
    done = run("compact", "alpha", "--store", long)
    words = shlex.split(done.out.splitlines()[-1])
    assert words[:3] == ["Undo:", "foveal", "rewind"]
    assert prompt_of(long) != before
    back = run(*words[2:])
    assert prompt_of(long) == before
    again = shlex.split(back.out.splitlines()[-1])
    assert run(*again[2:]).code == 0
    assert prompt_of(long) != before


def test_the_messages_and_the_branches_that_were_left_are_listed(run, long):
    """`rewind` without an entry says where one may go back to, and what was left."""
    shown = run("rewind", "alpha", "--store", long, "--json").json
    assert (shown["messages"][0]["role"], shown["branches"]) == ("system", [])
    target = shown["messages"][3]
    assert run("rewind", "alpha", target["entry"], "--store", long).out.startswith(
        f"alpha goes on from {target['entry']}"
    )
    after = run("rewind", "alpha", "--store", long, "--json").json
    assert [one["entry"] for one in after["messages"]] == [one["entry"] for one in shown["messages"][:4]]
    assert [one["forked_from"] for one in after["branches"]] == [None]
    assert "Branches that were left" in run("rewind", "alpha", "--store", long).out


def test_a_dry_run_shows_everything_and_writes_nothing(run, long):
    """The same numbers and the text of the summary; the log is as it was."""
    rows = entries(long)
    page = run("compact", "alpha", "--store", long, "--dry-run")
    plan = run("compact", "alpha", "--store", long, "--dry-run", "--json").json
    assert entries(long) == rows
    assert "would become" in page.out
    assert page.out.endswith("Nothing was written.\n")
    assert plan["summary"].splitlines()[0] in page.out
    assert plan["rewind_to"] is None
    done = run("compact", "alpha", "--store", long, "--json").json
    assert {key: done[key] for key in ("before", "after", "covered", "summary")} == {
        key: plan[key] for key in ("before", "after", "covered", "summary")
    }


@pytest.mark.parametrize("words", [(), ("--dry-run",)])
def test_nothing_to_fold_is_said_with_numbers(run, tmp_path, words):
    """How large the next prompt is, and of how much; nothing is written."""
    path = tmp_path / "small.db"
    store = open_store(path)
    with Session(store, "small", model="gpt-5") as session:
        session.append(user("Hello."))
        tokens = session.prompt().tokens
    store.close()
    rows = entries(path, "small")
    done = run("compact", "small", "--store", path, *words)
    assert done.code == 0
    assert "nothing to fold" in done.out
    assert f"takes {tokens} tokens" in done.out
    assert "272,000 above which a fold is due" in " ".join(done.out.split())
    said = run("compact", "small", "--store", path, *words, "--json").json
    assert (said["folded"], said["pressure"]["tokens"]) == (False, tokens)
    assert entries(path, "small") == rows


def test_a_summariser_is_named_on_the_line(run, long, endpoint):
    """It is asked with the instructions, and its name stands as the author."""
    pytest.importorskip("openai", reason="openai is not installed")
    body = {"role": "assistant", "content": PROSE}
    choice = {"index": 0, "finish_reason": "stop", "message": body}
    endpoint.script(
        RawReply(200, {"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]})
    )
    name = f"openai:small@{endpoint.url}/v1"
    done = run(
        "compact", "alpha", "--store", long, "--summariser", name, "--instructions", "the last file", "--json"
    ).json
    assert (done["author"], done["refused"]) == (name, None)
    assert PROSE in done["summary"]
    assert "Pay special attention to this: the last file" in endpoint.arguments[0]["messages"][1]["content"]
    trace = run("why", "alpha", "--store", long, "--json").json
    assert trace["summary"]["author"] == name
    assert f"its prose by {name}" in " ".join(run("why", "alpha", "--store", long).out.split())


def test_a_summariser_that_fails_is_told_of(run, long, endpoint):
    """The fold is made with code's own summary, and the reason is said."""
    pytest.importorskip("openai", reason="openai is not installed")
    endpoint.script(*[Refusal(401, "no such key")] * 2)
    name = f"openai:small@{endpoint.url}/v1"
    done = run("compact", "alpha", "--store", long, "--summariser", name)
    assert done.code == 0
    assert "was not taken (rejected)" in " ".join(done.out.split())
    assert "summary by code" in done.out


def test_a_summariser_that_only_the_host_knows_is_an_error_that_helps(run, long, tmp_path):
    """The stored policy names one that was registered in code; another can be named, or none."""
    path = tmp_path / "named.db"
    store = open_store(path)
    from foveal import writers as summarisers  # noqa: PLC0415 - nowhere else

    summarisers.register("cli-test-only", lambda _: PROSE)
    policy = Policy(compact=Compact(summariser="cli-test-only"))
    with Session(store, "named", model="gpt-5", policy=policy) as session:
        session.append(user("Hello."))
        session.prompt()
    store.close()
    summarisers.registry._registered.pop("cli-test-only")
    done = run("compact", "named", "--store", path)
    assert (done.code, done.out) == (2, "")
    assert "there is no summariser 'cli-test-only'" in done.err
    assert "--summariser none" in done.err
    assert run("compact", "named", "--store", path, "--summariser", "none").code == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("absent",), "there is no session 'absent'"),
        (("alpha", "--summariser", "opnai:x"), "Did you mean 'openai:x'?"),
        (("alpha", "--dry-run", "--instructions", "x"), "none is asked"),
        (("alpha", "--summariser", "none", "--instructions", "x"), "none is asked"),
        ((), "--help"),
    ],
)
def test_what_cannot_be_done_is_one_line(run, long, words, said):
    """Exit code 2 and a sentence that names what is wrong; nothing is written."""
    rows = entries(long)
    done = run("compact", *words, "--store", long)
    assert (done.code, done.out) == (2, "")
    assert said in done.err
    assert done.err.count("\n") == 1
    assert entries(long) == rows


def test_a_session_that_somebody_holds_is_left_alone(run, long):
    """Whoever works in it can compact it from there."""
    store = open_store(long)
    with Session(store, "alpha", model="gpt-5"):
        done = run("compact", "alpha", "--store", long)
    store.close()
    assert done.code == 2
    assert "nothing was written" in done.err


def test_another_scenario_is_noticed(run, tmp_path, monkeypatch):
    """What was shown under one scenario is not folded under another."""
    from foveal import RetentionRule  # noqa: PLC0415 - nowhere else
    from foveal.project.retention_layers import Scenario  # noqa: PLC0415

    monkeypatch.setenv("FOVEAL_SCENARIO", "ci")
    path = tmp_path / "ci.db"
    store = open_store(path)
    policy = Policy(scenarios={"ci": Scenario({"bash": RetentionRule("reference")})})
    with Session(store, "s", model="gpt-5", policy=policy) as session:
        session.append(user("Hello."))
        session.prompt()
    store.close()
    assert run("compact", "s", "--store", path).code == 0
    monkeypatch.delenv("FOVEAL_SCENARIO")
    done = run("compact", "s", "--store", path)
    assert done.code == 2
    assert "$FOVEAL_SCENARIO" in done.err


def test_why_says_for_which_entries_the_summary_stands(run, long):
    """Their number, their ranges and their ids; each of them is on the branch, and none of them is shown."""
    run("compact", "alpha", "--store", long)
    trace = run("why", "alpha", "--store", long, "--json").json
    summary = trace["summary"]
    gaps = [line for line in trace["lines"] if line["kind"] == "range"]
    assert len(summary["covers"]) == sum(line["entries"] for line in gaps)
    assert summary["ranges"] == [line["entry"] for line in gaps]
    assert (summary["author"], summary["raw_tokens"]) == ("code", sum(line["raw_tokens"] for line in gaps))
    shown = {line["entry"] for line in trace["lines"]}
    assert shown.isdisjoint(summary["covers"])
    page = " ".join(run("why", "alpha", "--store", long).out.split())
    assert f"The summary stands for {len(summary['covers'])} messages of {summary['raw_tokens']:,} tokens" in page


def test_why_says_so_where_pins_split_it(run, long):
    """One summary, several ranges; a pinned entry inside is not among what it stands for."""
    first = run("why", "alpha", "--call", 4, "--store", long, "--json").json["lines"]
    pinned = next(line["entry"] for line in reversed(first) if line["kind"] == "tool")
    run("pin", "alpha", pinned, "--store", long)
    run("compact", "alpha", "--store", long)
    trace = run("why", "alpha", "--store", long, "--json").json
    assert len(trace["summary"]["ranges"]) == 2
    assert pinned not in trace["summary"]["covers"]
    assert len(trace["summary"]["covers"]) == sum(line["entries"] for line in trace["lines"] if line["kind"] == "range")


def test_why_of_a_covered_entry_names_the_fold(run, long):
    """The entry is found inside the summary's range, with the fold that covered it."""
    run("compact", "alpha", "--store", long)
    covered = run("why", "alpha", "--store", long, "--json").json["summary"]["covers"][1]
    detail = run("why", "alpha", "--entry", covered, "--store", long, "--json").json["entry"]
    assert (detail["folds"][-1]["policy"], detail["folds"][-1]["author"]) == ("summarise", "")
    assert "\n[Summary of" in detail["stand_in"]


def test_a_prompt_without_a_summary_has_none(run, long):
    """Before the first fold there is nothing to explain."""
    assert run("why", "alpha", "--call", 2, "--store", long, "--json").json["summary"] is None


def test_policy_show_has_the_compact_table(run, tmp_path):
    """Every value, also those that nobody set."""
    path = tmp_path / "policy.toml"
    path.write_text('[compact]\nsummariser = "openai:gpt-5-mini"\ncheckpoint = true\n')
    shown = run("policy", "show", "--policy", path, "--json").json["compact"]
    assert set(shown) == set(Compact.__struct_fields__)
    assert (shown["summariser"], shown["checkpoint"], shown["deadline_s"]) == ("openai:gpt-5-mini", True, 60.0)
    lines = [" ".join(line.split()) for line in run("policy", "show", "--policy", path).out.splitlines()]
    assert "summariser openai:gpt-5-mini" in lines
    assert "checkpoint yes" in lines
    assert "summariser none: code writes summaries" in [
        " ".join(x.split()) for x in run("policy", "show").out.splitlines()
    ]


def test_policy_show_tells_of_old_keys_in_one_line(run, tmp_path):
    """What to write now, on stderr; the policy is shown as it is read."""
    path = tmp_path / "old.toml"
    path.write_text("auto_compact = true\ncompact_threshold = 8_000\n")
    done = run("policy", "show", "--policy", path, "--json")
    assert done.json["budget"]["trigger"] == 8_000
    assert done.err.count("\n") == 1
    assert "budget.trigger = 8000" in done.err


def test_a_session_with_a_renderer_of_the_hosts_is_compacted_without_it(run, tmp_path):
    """The renderer is code and not in the log: its results count whole, a note says so, and the fold is made."""
    store = open_store(tmp_path / "agent.db")
    host = Host(
        retention={"run": RetentionRule(renderer="count")}, renderers={"count": lambda text: f"{len(text)} characters"}
    )
    with Session(store, "s", model="gpt-5", host=host) as session:
        session.append(user("Go."))
        for n in range(30):
            session.extend([assistant("", ToolCall(f"c{n}", "run", "{}")), result(f"c{n}", f"row {n} of it\n" * 60)])
        session.prompt()
    store.close()
    done = run("compact", "s", "--store", tmp_path / "agent.db")
    assert done.code == 0
    assert "renderers that are not known here (count)" in done.err


class HideOld(msgspec.Struct, frozen=True, tag="hide_old", tag_field="fold"):
    """A stage of a host's own, as the documentation invites."""

    last_resort: bool = False

    def __call__(self, scene: Scene) -> Iterator[PartFold]:
        for atom in scene.foldable(0.1):
            for item in (item for item in atom.items if item.role == "tool"):
                yield scene.fold((item.id, 0), "[old]", level="reference", policy="hide_old", because="it is old")


class NoStruct:
    """A stage that is no data at all."""

    last_resort = False
    __call__ = HideOld.__call__


@pytest.mark.parametrize(("stage", "name"), [(HideOld(), "hide_old"), (NoStruct(), f"{__name__}.NoStruct")])
def test_a_session_with_a_stage_of_its_host_is_explained_anywhere(run, tmp_path, stage, name):
    """Its prompts are explained and shown without the stage's code; to fold by it, the error says which program can."""
    path = tmp_path / "own.db"
    policy = Policy(budget=BudgetTable(limit=3_000, reserve=0), stages=(stage,))
    with closing(open_store(path)) as store, Session(store, "own", model="gpt-5", policy=policy) as session:
        session.append(user("Go."))
        for n in range(12):
            session.extend([assistant("", ToolCall(f"c{n}", "read", "{}")), result(f"c{n}", "word " * 400)])
            session.prompt()
        assert session.view.facts.folds
        assert session.why(8).lines
    for command in ("why", "show"):
        done = run(command, "own", "--call", 9, "--store", path)
        assert (done.code, done.err) == (0, "")
        assert "old" in done.out
    refused = run("compact", "own", "--store", path)
    assert refused.code != 0
    assert f"folds by stages of its host ({name})" in refused.err
    assert "nothing was written" in refused.err
