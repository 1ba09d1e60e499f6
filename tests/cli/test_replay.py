"""`foveal replay`: the numbers add up, and everything it writes agrees with everything else it writes."""

import json
import os
from pathlib import Path

import pytest

from foveal.dialects import find_dialect

ADDED = ("calls", "raw_tokens", "sent_tokens", "cached_tokens", "prefix_moves", "refusals", "output_tokens")
CONVERSATION = {
    "openai_chat": {"messages"},
    "openai_responses": {"input", "instructions"},
    "anthropic": {"messages", "system"},
    "gemini": {"contents", "system_instruction"},
}


def lines_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_the_table_has_a_row_for_each_session_and_a_total(run, recorded):
    """Calls, tokens, cache, moves, costs, largest prompt and refusals, for each and for all; no usage is said to be none."""
    done = run("replay", recorded("alpha", "beta"), "--budget", 8000)
    assert done.code == 0
    head, alpha, beta, total = done.out.splitlines()[:4]
    assert head.split()[:5] == ["session", "calls", "raw", "recorded", "sent"]
    assert alpha.split()[:2] == ["alpha", "7"]
    assert alpha.split().count("none") == total.split().count("none") == 2
    assert beta.split()[:2] == ["beta", "7"]
    assert total.split()[:4] == ["total", "of", "2", "14"]
    assert "the recording names no model; replayed as gpt-5" in done.out


def test_totals_add_up(run, recorded):
    """The total is the sum of the sessions, and each session the sum of its calls."""
    done = run("replay", recorded("alpha", "beta", "gamma"), "--budget", 8000, "--json").json
    for name in ADDED:
        assert done["total"][name] == sum(session[name] for session in done["sessions"]), name
    assert done["total"]["sent_usd"] == pytest.approx(sum(session["sent_usd"] for session in done["sessions"]))
    for session in done["sessions"]:
        assert session["raw_tokens"] == sum(call["raw"] for call in session["per_call"])
        assert session["sent_tokens"] == sum(call["sent"] for call in session["per_call"])
        assert session["prefix_moves"] == sum(call["moved"] for call in session["per_call"])
        assert session["largest_sent"] == max(call["sent"] for call in session["per_call"]) <= 8000


def test_what_fits_is_sent_as_it_is(run, recorded):
    """Without a fold, sent is raw, to the token and to the cent."""
    total = run("replay", recorded("alpha", size=20), "--json").json["total"]
    assert total["sent_tokens"] == total["raw_tokens"]
    assert total["sent_usd"] == total["raw_usd"]
    assert total["prefix_moves"] == 0


@pytest.mark.parametrize("dialect", CONVERSATION)
def test_prompts_are_what_would_be_sent(run, recorded, tmp_path, dialect):
    """One line a call, in the dialect asked for, valid for its provider, with the tokens that the report counts."""
    out = tmp_path / "prompts.jsonl"
    done = run("replay", recorded("alpha"), "--budget", 8000, "--dialect", dialect, "--prompts", out, "--json").json
    lines = lines_of(out)
    assert [line["call"] for line in lines] == list(range(1, 8))
    assert [line["tokens"] for line in lines] == [call["sent"] for call in done["sessions"][0]["per_call"]]
    for line in lines:
        assert set(line) == {"session", "call", "tools", "tokens"} | CONVERSATION[dialect]
        assert line["session"] == "alpha"
        assert line["tools"]
    if dialect == "openai_chat":
        request = {"model": "gpt-5", "messages": lines[-1]["messages"], "tools": lines[-1]["tools"]}
        assert find_dialect(dialect).problems(request, 0) == []


def test_a_refused_call_says_why(run, recorded, tmp_path):
    """What cannot fit is refused and named, in the lines, in the numbers and in the notes."""
    out = tmp_path / "prompts.jsonl"
    done = run("replay", recorded("alpha"), "--budget", 40, "--prompts", out, "--json").json
    assert done["total"]["refusals"] == 7
    assert done["total"]["sent_tokens"] == 0
    assert done["total"]["cached_share"] is None
    assert all(set(line) == {"session", "call", "refused"} for line in lines_of(out))
    assert "OverBudget" in lines_of(out)[0]["refused"]
    assert any("refused" in note for note in done["sessions"][0]["notes"])


def test_more_processes_give_the_same(run, recorded, tmp_path):
    """Prompts, page and document are the same bytes with one process and with two."""
    path = recorded("alpha", "beta", "gamma", "delta")
    seen = []
    for jobs in (1, 2):
        prompts, page = tmp_path / f"prompts{jobs}", tmp_path / f"page{jobs}"
        options = ("--budget", 8000, "--jobs", jobs, "--prompts", prompts, "--html", page, "--json")
        done = run("replay", path, tmp_path / "absent.jsonl", path, *options)
        assert done.code == 2
        seen.append((done.out, done.err, prompts.read_bytes(), page.read_bytes()))
    assert seen[0] == seen[1]
    assert len(lines_of(tmp_path / "prompts2")) == 8 * 7


def test_a_budget_is_in_o200k_tokens_unless_a_model_is_named(run, recorded, tmp_path):
    """The recorded model gives the prices; the budget means the same for every recording, until a model is named."""
    path = recorded("alpha", steps=20, size=50)
    path.write_text(path.read_text().replace('"model": null', '"model": "claude-opus-4-5"'))
    plain = run("replay", path, "--budget", 8000, "--json").json["sessions"][0]
    named = run("replay", path, "--budget", 8000, "--model", "claude-opus-4-5", "--json").json["sessions"][0]
    assert (plain["model"], plain["counter"], plain["limit"]) == ("claude-opus-4-5", "o200k_base", 8000)
    assert named["limit"] < 8000
    assert plain["largest_sent"] > named["limit"]
    assert any("by the count of o200k_base" in note for note in plain["notes"])


def test_a_model_of_unknown_price_costs_unknown(run, recorded):
    """An unknown price is never zero."""
    path = recorded("alpha", size=20)
    assert run("replay", path, "--model", "nobody-knows-it", "--json").json["total"]["sent_usd"] is None
    done = run("replay", path, "--model", "nobody-knows-it")
    assert done.out.splitlines()[1].split().count("unknown") == 2
    assert "unknown model" in done.out


def test_a_recorded_model_that_nobody_knows_is_replaced_and_named(run, recorded):
    path = recorded("alpha", size=20)
    path.write_text(path.read_text().replace('"model": null', '"model": "nobody-knows-it"'))
    (session,) = run("replay", path, "--json").json["sessions"]
    assert session["model"] == "gpt-5"
    assert "the recorded model nobody-knows-it is not in the price table; replayed as gpt-5" in session["notes"]


def test_a_policy_file_counts_and_a_budget_overrides_it(run, recorded, tmp_path):
    """The policy's budget holds until `--budget` names another."""
    policy = tmp_path / "policy.toml"
    policy.write_text("[budget]\nlimit = 9000\nreserve = 1000\ntarget = 6000\n")
    path = recorded("alpha")
    limits = [
        run("replay", path, "--policy", policy, *more, "--json").json["sessions"][0]["limit"]
        for more in ((), ("--budget", 5000))
    ]
    assert limits == [8000, 5000]


def test_the_replayed_sessions_can_be_kept(run, recorded, tmp_path):
    """`--store` keeps them for `why`; a session that is there already is refused and stays as it was."""
    store, path = tmp_path / "kept.db", recorded("alpha", "beta")
    assert run("replay", path, "--budget", 8000, "--store", store, "--jobs", 2).code == 0
    before = run("sessions", "--store", store, "--json").json
    assert sorted(card["id"] for card in before["sessions"]) == ["alpha", "beta"]
    again = run("replay", path, "--store", store)
    assert again.code == 2
    assert "the store has a session 'alpha' already" in again.err
    assert run("sessions", "--store", store, "--json").json == before
    trace = run("why", "alpha", "--call", 7, "--store", store, "--json").json
    assert trace["tokens"] <= trace["limit"] == 8000


def test_a_huge_result_is_kept_with_its_artifact(run, recorded, tmp_path):
    """What is too large for the log goes along into the store, and comes back whole."""
    store = tmp_path / "kept.db"
    path = recorded("alpha", steps=1, size=20_000)
    assert run("replay", path, "--budget", 8000, "--store", store).code == 0
    trace = run("why", "alpha", "--call", 2, "--store", store, "--json").json
    ref = next(line["entry"] for line in trace["lines"] if line["kind"] == "tool")
    assert "line 19999 of file 0 in alpha" in run("recall", "alpha", ref, "--store", store).out


def test_many_files_come_in_their_order(run, recorded):
    """Files are read one after the other, in the order given."""
    first, second = recorded("alpha", file="a.jsonl"), recorded("beta", file="b.jsonl")
    done = run("replay", second, first, "--json").json
    assert [session["session"] for session in done["sessions"]] == ["beta", "alpha"]


def test_prompts_can_go_to_a_pipe(run, recorded, tmp_path):
    """What is not a file is written to and not replaced."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        assert run("replay", recorded("alpha", steps=1, size=5), "--prompts", pipe).code == 0
        assert len(os.read(reader, 1 << 16).splitlines()) == 2
    finally:
        os.close(reader)
    assert pipe.is_fifo()


def claude_session(path, *, calls=4, words=400, counted=(1, 2, 3, 4), model="claude-sonnet-4-5"):
    """Write a Claude Code session with its system prompt and tools, and the usage of the calls that are counted."""
    system, tool = (
        [{"type": "text", "text": "You are kind. " * 50}],
        {"name": "Bash", "input_schema": {"type": "object"}},
    )
    hosted = {"type": "web_search_20250305", "name": "web_search"}
    lines = [
        {"type": "api-request-shape", "shapeHash": "x", "shape": {"system": system, "tools": [tool, hosted]}},
        {"type": "user", "uuid": "u", "parentUuid": None, "sessionId": "claude", "message": {"content": "Go."}},
    ]
    parent = "u"
    for n in range(1, calls + 1):
        block = {"type": "tool_use", "id": f"t{n}", "name": "Bash", "input": {"n": n}}
        message = {"id": f"m{n}", "model": model, "content": [block]}
        if n in counted:
            counts = {"input_tokens": 1, "cache_read_input_tokens": 8000 * n, "cache_creation_input_tokens": 1999}
            message["usage"] = {**counts, "output_tokens": 100}
        lines.append({"type": "assistant", "uuid": f"a{n}", "parentUuid": parent, "message": message})
        answer = {"type": "tool_result", "tool_use_id": f"t{n}", "content": f"row {n} of it " * words}
        parent = f"r{n}"
        lines.append({"type": "user", "uuid": parent, "parentUuid": f"a{n}", "message": {"content": [answer]}})
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_a_session_is_replayed_in_the_dialect_of_its_client(run, tmp_path):
    """The fixed part that the file holds is sent and counted; `--dialect` asks for another one."""
    path, out = claude_session(tmp_path / "s.jsonl"), tmp_path / "prompts.jsonl"
    (session,) = run("replay", path, "--prompts", out, "--json").json["sessions"]
    assert session["dialect"] == "anthropic"
    first = lines_of(out)[0]
    assert "You are kind." in json.dumps(first["system"])
    assert [tool["name"] for tool in first["tools"]] == ["Bash", "web_search"]
    assert session["per_call"][0]["raw"] == session["per_call"][0]["sent"] > 150
    (other,) = run("replay", path, "--dialect", "openai_chat", "--prompts", out, "--json").json["sessions"]
    assert other["dialect"] == "openai_chat"
    assert [tool["function"]["name"] for tool in lines_of(out)[0]["tools"]] == ["Bash"]
    assert "1 recorded tool(s) of another provider cannot be offered in openai_chat" in other["notes"]


def test_the_recorded_usage_is_billed_beside_the_replay(run, tmp_path):
    """Input, read and written tokens and output at the prices of the recorded model, whichever model is replayed."""
    path = claude_session(tmp_path / "s.jsonl")
    for more in ((), ("--model", "gpt-5")):
        done = run("replay", path, *more, "--json").json
        total = done["total"]
        assert total["recorded_calls"] == 4
        assert total["recorded_tokens"] == 4 * 2000 + 8000 * 10
        assert (total["recorded_cached_tokens"], total["recorded_written_tokens"]) == (80_000, 4 * 1999)
        expected = (4 * 1 * 3.0 + 80_000 * 0.3 + 4 * 1999 * 3.75 + 400 * 15.0) / 1e6
        assert total["recorded_usd"] == pytest.approx(expected)
        assert done["sessions"][0]["per_call"][1]["recorded"]["cached"] == 16_000
    row = run("replay", path).out.splitlines()[1]
    assert "88.0k" in row
    assert f"${expected:.2f}" in row
    (note,) = [note for note in done["sessions"][0]["notes"] if "counted" in note and "more in call 1" in note]
    assert "not in the file" in note


def test_usage_of_some_calls_says_of_which(run, tmp_path):
    """A sum of half the calls does not pass for the whole."""
    done = run("replay", claude_session(tmp_path / "s.jsonl", counted=(1, 3, 4)), "--json").json
    assert done["total"]["recorded_calls"] == 3
    assert any("usage is recorded for 3 of 4 calls" in note for note in done["sessions"][0]["notes"])


def test_a_raw_prompt_that_nobody_could_send_is_not_billed(run, page_blocks, tmp_path):
    """Above the window of the model the whole history has no price; how many calls that is about is said."""
    path, policy = claude_session(tmp_path / "s.jsonl", counted=()), tmp_path / "policy.toml"
    policy.write_text('[models."claude-sonnet-4-5"]\nwindow = 9000\nmax_input = 5000\n')
    options = ("--policy", policy, "--budget", 4000)
    (session,) = run("replay", path, *options, "--json").json["sessions"]
    fits = [call["raw"] <= 5000 for call in session["per_call"]]
    assert fits == [call["raw_sendable"] for call in session["per_call"]] == [True, True, True, False]
    assert session["unsendable"] == 1
    assert session["raw_tokens"] == sum(call["raw"] for call in session["per_call"][:3])
    assert any(note.startswith("1 of 4 raw prompt(s) are larger than") for note in session["notes"])
    (all_of_it,) = run("replay", path, "--budget", 4000, "--json").json["sessions"]
    assert session["raw_usd"] < all_of_it["raw_usd"]
    page = tmp_path / "page.html"
    run("replay", path, *options, "--html", page)
    (row,) = page_blocks(page)["overview-data"]["sessions"]
    assert (row["calls"], row["too_large"]) == (4, 1)


def test_a_session_without_a_prompt_is_a_row_of_the_page(run, recorded, page_blocks, tmp_path):
    """Where the budget is too small for anything, or no model was asked, the list has the session all the same."""
    page = tmp_path / "page.html"
    assert run("replay", recorded("alpha"), "--budget", 20, "--html", page).code == 0
    found = page_blocks(page)
    assert [(row["name"], row["calls"]) for row in found["overview-data"]["sessions"]] == [("alpha", 7)]


def test_a_page_opens_the_largest_sessions_and_lists_all(run, recorded, page_blocks, tmp_path, monkeypatch):
    """Of many sessions the largest are in the page, first in the list; a file that cannot be read is a row that says why."""
    monkeypatch.setattr("foveal.cli.replay.MOST_PAGES", 2)
    small, large = recorded("alpha", "beta", steps=2), recorded("gamma", file="large.jsonl", steps=9)
    page, absent = tmp_path / "page.html", tmp_path / "absent.jsonl"
    assert run("replay", small, large, absent, "--budget", 8000, "--html", page).code == 2
    found = page_blocks(page)
    rows = found.pop("overview-data")["sessions"]
    assert [row["name"] for row in rows[:3]] == ["alpha", "gamma", "beta"]
    assert "no such file" in rows[3]["error"]
    assert [found[f"session-{place}"]["name"] for place in range(2)] == ["alpha", "gamma"]
    assert found["session-1"]["runs"][0]["name"] == "8,000 tokens"


def test_the_newest_sessions_of_the_agents_are_found(run, tmp_path, monkeypatch):
    """`--recent` looks where the clients keep their sessions, by their own variables where these are set; newest first."""
    home, elsewhere = tmp_path / "home", tmp_path / "elsewhere"
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("CODEX_HOME", str(elsewhere))
    for name in ("CLAUDE_CONFIG_DIR", "XDG_DATA_HOME", "PI_CODING_AGENT_DIR"):
        monkeypatch.delenv(name, raising=False)
    places = [home / ".claude/projects/p/old.jsonl", elsewhere / "sessions/2026/01/01/rollout-1.jsonl"]
    for age, place in enumerate((home / ".claude/projects/p/s/subagents/agent-1.jsonl", *places)):
        place.parent.mkdir(parents=True, exist_ok=True)
        claude_session(place)
        os.utime(place, (1_000 - age, 1_000 - age))
    done = run("replay", "--recent", 2, "--json").json
    sources = [session["source"] for session in done["sessions"]]
    assert [Path(source).name for source in sources] == ["agent-1.jsonl", "old.jsonl"]
    assert len(run("replay", "--recent", 9, "--json").json["sessions"]) == 3


def test_no_recording_at_all_is_an_error_that_says_what_to_name(run, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    for words, what in (
        ((), "no recording is named"),
        (("--recent", 3), "no agent that we know has kept a session here"),
    ):
        done = run("replay", *words)
        assert done.code == 2
        assert what in done.err
        assert "--recent 10" in done.err
