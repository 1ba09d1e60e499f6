"""`foveal why` and `foveal show`: a prompt of the past, explained and as it was."""

import json

import pytest

from foveal import RetentionRule, ToolCall, open_store
from foveal.cli.why import PREVIEW_CHARS
from foveal.context.fences import FenceKind
from foveal.session.options import Host, Model
from foveal.session.policy import Policy
from foveal.session.session import Session
from foveal.values.entry import assistant, result, system, user


def test_the_lines_add_up(run, kept):
    """Entries, tools and framing are the total; every entry has one line, with its id, kind, level and reason."""
    trace = run("why", "alpha", "--call", 7, "--store", kept, "--json").json
    lines = sum(line["tokens"] for line in trace["lines"])
    assert trace["tokens"] == lines + trace["tools_tokens"] + trace["framing_tokens"]
    done = run("why", "alpha", "--call", 7, "--store", kept)
    assert (done.code, done.err) == (0, "")
    rows = done.out.splitlines()
    assert rows[1].split() == ["entry", "kind", "shown", "tokens", "raw", "policy", "because"]
    assert len(rows[2 : rows.index("")]) == len(trace["lines"])
    totals = {row.split()[0]: int(row.split()[1].replace(",", "")) for row in rows[rows.index("") + 2 :][:4]}
    assert totals["entries"] == lines
    assert totals["total"] == totals["entries"] + totals["tools"] + totals["framing"] == trace["tokens"]
    assert f"{trace['tokens'] / 8000:.1%} of the limit of 8,000 tokens" in done.out


def test_a_past_prompt_is_the_one_that_was_sent(run, recorded, tmp_path):
    """What `why` and `show` build again from the store is what the replay wrote when it happened."""
    store, prompts = tmp_path / "kept.db", tmp_path / "prompts.jsonl"
    run("replay", recorded("alpha"), "--budget", 8000, "--store", store, "--prompts", prompts)
    for line in map(json.loads, prompts.read_text().splitlines()):
        request = run("show", "alpha", "--call", line["call"], "--store", store, "--json").json
        assert (request["messages"], request["tools"]) == (line["messages"], line["tools"])
        assert run("why", "alpha", "--call", line["call"], "--store", store, "--json").json["tokens"] == line["tokens"]


def test_a_count_that_is_not_the_models_own_is_kept(run, recorded, tmp_path):
    """A replay in o200k tokens of a model with another vocabulary is explained in o200k tokens."""
    store, path = tmp_path / "kept.db", recorded("alpha")
    path.write_text(path.read_text().replace('"model": null', '"model": "gpt-4"'))
    replayed = run("replay", path, "--budget", 8000, "--store", store, "--json").json["sessions"][0]
    assert (replayed["model"], replayed["counter"]) == ("gpt-4", "o200k_base")
    for call in replayed["per_call"]:
        assert run("why", "alpha", "--call", call["call"], "--store", store, "--json").json["tokens"] == call["sent"]


def test_one_entry_with_its_original_and_its_folds(run, kept):
    """The original and the stand-in side by side, and each fold with its reason and its price."""
    trace = run("why", "alpha", "--call", 7, "--store", kept, "--json").json
    folded = next(line for line in trace["lines"] if line["kind"] == "tool" and line["policy"])
    done = run("why", "alpha", "--call", 7, "--entry", folded["entry"][:8], "--store", kept)
    assert done.code == 0
    assert f"by {folded['policy']}" in done.out
    assert "billed anew" in done.out
    assert "── original, " in done.out
    assert "── stand-in, " in done.out
    assert f"foveal recall alpha {folded['entry'][:10]}" in done.out
    detail = run("why", "alpha", "--call", 7, "--entry", folded["entry"], "--store", kept, "--json").json["entry"]
    assert detail["line"] == folded
    assert len(detail["original"]) >= PREVIEW_CHARS  # cut for the page
    assert detail["stand_in"].startswith("[")
    assert detail["folds"][-1]["policy"] == folded["policy"]


def test_an_entry_inside_a_range_is_explained_by_the_range(run, recorded, tmp_path):
    """What was covered with its neighbours has no line of its own, and is found all the same."""
    store = tmp_path / "kept.db"
    run("replay", recorded("alpha", steps=30, size=40), "--budget", 2500, "--store", store)
    trace = run("why", "alpha", "--call", 31, "--store", store, "--json").json
    gap = next(line for line in trace["lines"] if line["kind"] == "range")
    early = run("why", "alpha", "--call", 3, "--store", store, "--json").json["lines"][-1]
    detail = run("why", "alpha", "--call", 31, "--entry", early["entry"], "--store", store, "--json").json["entry"]
    assert detail["line"] == gap
    assert detail["folds"][-1]["policy"] == "summarise"
    assert f"{gap['entries']} earlier messages" in detail["stand_in"]


def test_an_entry_after_the_call_is_no_part_of_its_prompt(run, kept):
    last = run("why", "alpha", "--call", 7, "--store", kept, "--json").json["lines"][-1]
    done = run("why", "alpha", "--call", 1, "--entry", last["entry"], "--store", kept)
    assert done.code == 2
    assert "no part of the prompt of call 1" in done.err


def test_the_next_prompt_is_the_default(run, kept):
    """Without a call, the next one; with no fold made for it yet."""
    assert run("why", "alpha", "--store", kept, "--json").json["call"] == 8


def test_the_store_can_come_from_the_environment(run, kept, monkeypatch):
    monkeypatch.setenv("FOVEAL_STORE", str(kept))
    assert run("sessions").code == 0


def test_show_cannot_drive_the_terminal(run, tmp_path):
    """Escape sequences, C1 controls and changes of reading order are shown and not obeyed."""
    path = tmp_path / "agent.db"
    store = open_store(path)
    with Session(store, "nasty", model="gpt-5") as session:
        session.append(user("go\x1b[2J\x9b31m \u202eevil\u2066 \rover"))
        session.append(assistant("", ToolCall("c1", "look", "{}")))
        session.append(result("c1", "\x1b]0;title\x07"))
        session.prompt()
    store.close()
    done = run("show", "nasty", "--store", path)
    assert done.code == 0
    assert not set(done.out) & set("\x1b\x9b\u202e\u2066\r\x07")
    assert "go␛[2J⟨U+009B⟩31m ⟨U+202E⟩evil⟨U+2066⟩ ␍over" in done.out
    assert "␛]0;title␇" in done.out
    assert "assistant calls look (c1)" in done.out
    assert "result of c1" in done.out


def test_show_reads_like_a_transcript(run, kept):
    done = run("show", "alpha", "--call", 2, "--store", kept).out
    assert done.startswith("alpha, call 2: gpt-5 in the openai_chat dialect")
    places = [
        done.index(text) for text in ("── system\nBe brief.", "── user\nLook", "── assistant calls read_file", "line 0")
    ]
    assert places == sorted(places)
    assert "of 8,000 tokens; tools read_file" in done


PLACED = (
    FenceKind("rules", role="system", placement="after_system", lifetime="session"),
    FenceKind("docs", placement="before_request", lifetime="session"),
    FenceKind("state", placement="after_result"),
)


@pytest.mark.parametrize("dialect", ["openai_chat", "anthropic"])
def test_show_has_fences_and_reminders_in_their_places(run, tmp_path, dialect):
    """What stood beside the conversation is shown where it was sent, for the next prompt and for a past call."""
    policy = Policy(remind=True, fences=PLACED)
    with (
        open_store(tmp_path / "agent.db") as store,
        Session(store, "s", model=Model("gpt-5", dialect), policy=policy) as session,
    ):
        session.extend([system("Be brief."), user("Look at it.")])
        for kind in PLACED:
            session.context.inject(kind.name, f"the text of {kind.name}", key="k")
        session.extend([assistant("", ToolCall("c1", "look", "{}")), result("c1", "seen")])
        session.context.remind("Only once.")
        first = json.dumps(session.prompt().request)
        session.append(assistant("Done."))
        session.append(user("And now?"))
        session.context.remind("Only later.")
        second = json.dumps(session.prompt().request)
    order = (
        "Be brief.",
        "the text of rules",
        "the text of docs",
        "Look at it.",
        "seen",
        "the text of state",
        "Only once.",
    )
    for words, request, texts in (
        (("--call", 2), first, order),
        ((), second, (*order[:2], "Look at it.", "the text of docs", "And now?", "Only later.")),
    ):
        shown = run("show", "s", *words, "--store", tmp_path / "agent.db").out
        assert [text for text in texts if text not in request] == []
        places = [shown.index(text) for text in texts]
        assert places == sorted(places)
    past = run("show", "s", "--call", 2, "--store", tmp_path / "agent.db").out
    assert "Only later." not in past
    assert "── system, fence rules:k\n" in past
    assert "── user, fence docs:k\n" in past
    assert ", reminder " in past


def test_a_session_with_a_renderer_of_the_hosts_is_explained_without_it(run, tmp_path):
    """The renderer is code and not in the log: its results are shown whole, and a note says so."""
    store = open_store(tmp_path / "agent.db")
    rules, renderers = {"run": RetentionRule(renderer="count")}, {"count": lambda text: f"{len(text)} characters"}
    with Session(store, "s", model="gpt-5", host=Host(retention=rules, renderers=renderers)) as session:
        session.extend([user("Go."), assistant("", ToolCall("c", "run", "{}"))])
        entry = session.append(result("c", "word " * 500))
        session.prompt()
    store.close()
    for words in (["why", "s"], ["why", "s", "--entry", entry.id[:10]], ["show", "s"], ["why", "s", "--json"]):
        done = run(*words, "--store", tmp_path / "agent.db")
        assert done.code == 0
        assert "renderers that are not known here (count)" in done.err
        assert done.err.count("\n") == 1
    lines = run("why", "s", "--store", tmp_path / "agent.db", "--json").json["lines"]
    assert next(line["shown"] for line in lines if line["kind"] == "tool") == "full"
    assert run("pin", "s", entry.id, "--store", tmp_path / "agent.db").code == 0
