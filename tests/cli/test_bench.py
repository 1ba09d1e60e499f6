"""`foveal bench --ask`: a scripted model over real HTTP, asked with whole and folded prompts of recorded sessions."""

import io
import json
import os
import random
import re
import signal
import subprocess
import sys
from collections import Counter

import pytest

from foveal.cli import main
from foveal.models.catalogue import cost_usd, find
from foveal.testing.provider import Call, RawReply, Refusal, ScriptedProvider, TooLong, Turn
from foveal.values.own_tools import RECALL_TOOL

CLUE = "line 3 of file 0"
"""A line of the first result, which a fold does not keep."""
MODELS = {
    "openai_chat": "gpt-4.1",
    "openai_responses": "gpt-5-mini",
    "anthropic": "claude-haiku-4-5",
    "gemini": "gemini-2.5-pro",
}
SDKS = {"anthropic": "anthropic", "gemini": "google.genai"}


def reads(path, **usage):
    return Turn("", (Call("c9", "read_file", {"path": path}),), **usage)


def by_clue(request):
    """A model that goes on with the file that a clue names, and gropes in the dark without it."""
    return reads("clue.py" if CLUE in json.dumps(request.body) else "dark.py")


def same(request):
    return reads("a.py", cached=0)


@pytest.fixture
def provider(monkeypatch):
    with ScriptedProvider(improvise=same) as running:
        for name, value in running.environment.items():
            monkeypatch.setenv(name, value)
        yield running


@pytest.fixture
def ask(run, recorded):
    """Asks about five calls of three sessions, confirmed, one at a time."""

    def ask_model(*more, dialect="openai_chat", calls=5, confirmed=("--yes",)):
        file = recorded("alpha", "beta", "gamma")
        words = ("--ask", MODELS[dialect], "--dialect", dialect, "--budget", 8000, "--calls", calls, "--jobs", 1)
        return run("bench", file, *words, *confirmed, *more)

    return ask_model


def shares(done, likeness="target"):
    (one,) = (one for one in done.json["overall"] if one["likeness"] == likeness)
    return [one[name]["share"] for name in ("folded_and_whole", "whole_twice", "folded_twice", "beyond_noise")]


@pytest.mark.parametrize("dialect", MODELS)
def test_a_fold_that_hides_the_clue_lowers_agreement(dialect, provider, ask):
    """In every dialect: the tool stays the same, the target does not, the model agrees with itself, and no request is wrong."""
    pytest.importorskip(SDKS.get(dialect, "openai"))
    provider.improvise = by_clue
    done = ask("--json", dialect=dialect)
    assert done.code == 0
    assert done.err.startswith(f"foveal: 20 requests to {MODELS[dialect]}, ")  # the price, and nothing else
    assert done.err.count("\n") == 1
    assert shares(done, "tool") == [1, 1, 1, 0]
    across, whole, folded, beyond = shares(done)
    assert (whole, folded) == (1, 1)
    assert across < 0.5 < beyond
    assert (len(provider.requests), provider.refused) == (20, [])
    assert Counter(CLUE in request.raw.decode() for request in provider.requests)[True] >= 10


def test_a_model_that_needs_no_clue_agrees(provider, ask):
    """The same measure says that nothing changed where nothing did."""
    done = ask("--json")
    assert shares(done) == shares(done, "arguments") == [1, 1, 1, 0]
    assert done.json["bills"]["folded"]["input_tokens"] < done.json["bills"]["whole"]["input_tokens"] / 2


def test_a_noisy_model_is_told_from_a_bad_fold(provider, ask):
    """Answers by chance: agreement across prompts is as low as the model's with itself, and the difference may well be 0."""
    chance = random.Random(4)
    provider.improvise = lambda request: reads(chance.choice(("a.py", "b.py")))
    done = ask("--json", calls=15)
    across, whole, folded, _ = shares(done)
    assert max(across, whole, folded) < 0.8
    beyond = done.json["overall"][1]["beyond_noise"]["interval"]
    assert beyond["low"] < 0 < beyond["high"]


def test_recalled_clues_count(provider, ask):
    """A folded prompt's call of our own tool is answered from the session and the model asked again: then it knows the clue."""

    def recalling(request):
        text = json.dumps(request.body)
        offered = [tool["function"]["name"] for tool in request.body["tools"]]
        if CLUE in text or RECALL_TOOL not in offered:
            return reads("clue.py")
        number, refs = len(provider.requests), re.findall(r"ref ([0-9a-f]{6,}(?:\.\.\w+)?)", text)
        return Turn("", (Call(f"r{number}", RECALL_TOOL, {"ref": refs[0], "pattern": "line [3] of file 0 "}),))

    provider.improvise = recalling
    done = ask("--json")
    bill = done.json["bills"]["folded"]
    assert bill["answers"] == 10
    assert bill["recalling"] >= 6
    assert bill["recalls"] == len(provider.requests) - 20
    assert shares(done) == [1, 1, 1, 0]
    assert provider.refused == []


def test_recall_without_an_end_is_bounded(provider, ask):
    """A model that only recalls is asked four times, and its action is to recall."""
    provider.improvise = lambda request: (
        Turn("", (Call(f"r{len(provider.requests)}", RECALL_TOOL, {"ref": "none"}),))
        if RECALL_TOOL in request.raw.decode()
        else reads("a.py")
    )
    done = ask("--json", calls=1)
    assert len(provider.requests) == 2 + 2 * 4
    assert shares(done, "tool")[0] == 0
    assert done.json["bills"]["folded"]["recalls"] == 8


@pytest.mark.parametrize("as_json", [(), ("--json",)], ids=["text", "json"])
def test_nothing_is_sent_unless_the_price_is_confirmed(as_json, provider, ask, tmp_path):
    """Without a terminal and without --yes: the price, exit code 1, and not one request."""
    done = ask(*as_json, "--output", tmp_path / "answers.jsonl", confirmed=())
    assert done.code == 1
    assert provider.requests == []
    if as_json:
        assert done.json["would_ask"]["requests"] == 20
        assert 0 < done.json["would_ask"]["about_usd"] < done.json["would_ask"]["most_usd"]
    else:
        assert "20 requests to gpt-4.1" in done.out
        assert done.out.endswith("Nothing was sent. Add --yes to send.\n")


@pytest.mark.parametrize(("typed", "sent"), [("y\n", 20), ("\n", 0), ("", 0)])
def test_a_person_at_a_terminal_is_asked(typed, sent, provider, recorded, monkeypatch):
    """Only a yes sends."""

    class Terminal(io.StringIO):
        def isatty(self):
            return True

    shown = Terminal()
    monkeypatch.setattr("sys.stdin", Terminal(typed))
    monkeypatch.setattr("sys.stdout", shown)
    words = ["--ask", "gpt-4.1", "--dialect", "openai_chat", "--budget", "8000", "--calls", "5"]
    assert main(["bench", str(recorded("alpha")), *words]) == (0 if sent else 1)
    assert len(provider.requests) == sent
    assert "Send? [y/N]" in shown.getvalue()
    assert ("Nothing was sent." in shown.getvalue()) == (not sent)


def test_the_price_that_is_shown_is_the_price_that_is_billed(provider, ask):
    """Where nothing comes from a cache, the provider's usage comes to the estimate, but for the length of replies; never to more
    than the most."""
    shown = ask("--json", confirmed=()).json["would_ask"]
    provider.begin()
    billed = ask("--json").json["bills"]
    facts, usages = find("gpt-4.1"), provider.usages
    by_hand = sum(cost_usd(facts, 0, 0, 7, fresh=usage.tokens) or 0 for usage in usages)
    total = billed["whole"]["cost_usd"] + billed["folded"]["cost_usd"]
    assert total == pytest.approx(by_hand)
    assert total == pytest.approx(shown["about_usd"], rel=0.03)
    assert total < shown["most_usd"]
    assert sum(usage.tokens for usage in usages) == pytest.approx(shown["input_tokens"], rel=0.02)


def test_a_provider_that_counts_more_than_was_confirmed_is_left(provider, ask):
    """Spending stops when it is above the most that was said."""
    provider.improvise = lambda request: reads("a.py", counted=3_000_000, cached=0)
    done = ask()
    assert done.code == 2
    assert "more than the $" in done.err
    assert len(provider.requests) < 20


def test_rate_limits_and_errors_of_the_server_are_waited_out(provider, ask):
    """Each is asked again after the pause that the provider names, and every answer comes in the end."""
    provider.script(Refusal(429, "slow down", {"retry-after": "0"}), Refusal(500, "oops", {"retry-after": "0"}))
    done = ask("--json")
    assert (done.code, len(provider.requests)) == (0, 22)
    assert shares(done) == [1, 1, 1, 0]


def test_a_call_that_fails_does_not_end_the_run(provider, ask, tmp_path):
    """Refusals, requests that are too long and those that are wrong are counted; what may pass is asked again by the next run."""
    bad = [Refusal(400, "no such option"), TooLong(1000), RawReply(200, {"choices": []})]
    bad += [Refusal(503, "oops", {"retry-after": "0"})] * 6
    provider.script(*bad)
    out = tmp_path / "answers.jsonl"
    done = ask("--output", out)
    assert done.code == 0
    assert "Without an answer to the whole prompt: 1 refused by the provider, 1 unreadable." in done.out
    assert "Without an answer to the folded prompt: 1 too long for the model, 1 failed." in done.out
    asked = len(provider.requests)
    again = ask("--output", out)
    assert "1 request to gpt-4.1" in again.out
    assert len(provider.requests) == asked + 1
    assert "1 failed" not in again.out


def test_a_wrong_key_ends_the_run_at_once(provider, ask, monkeypatch):
    """Every other request would fail as well; the key is not told."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-0123456789")
    provider.improvise = lambda request: Refusal(401, "Incorrect API key provided: sk-secret-0123456789")
    done = ask()
    assert (done.code, len(provider.requests)) == (2, 1)
    assert "gpt-4.1 cannot be asked: AuthenticationError" in done.err
    assert "secret" not in done.out + done.err


def test_a_killed_run_goes_on_where_it_was(provider, ask, recorded, tmp_path):
    """The process is killed with its eighth request under way: seven answers are kept, thirteen are asked for by the next run."""
    out, running = tmp_path / "answers.jsonl", []

    def killing(request):
        if len(provider.requests) == 8:
            os.kill(running[0].pid, signal.SIGKILL)
        return same(request)

    provider.improvise = killing
    words = ["--ask", "gpt-4.1", "--dialect", "openai_chat", "--budget", "8000", "--calls", "5", "--jobs", "1", "--yes"]
    file = recorded("alpha", "beta", "gamma")
    command = [sys.executable, "-m", "foveal", "bench", str(file), *words, "--output", str(out)]
    running.append(subprocess.Popen(command, stdout=subprocess.DEVNULL))
    assert running[0].wait(120) == -signal.SIGKILL
    assert len(out.read_text().splitlines()) == 1 + 7
    out.write_bytes(out.read_bytes() + b'{"type":"answer","trial":{"dig')  # a line that was cut
    provider.begin()
    provider.improvise = same
    done = ask("--json", "--output", out)
    assert len(provider.requests) == 13
    assert done.json["calls"] == 5
    assert shares(done) == [1, 1, 1, 0]
    assert len(out.read_text().splitlines()) == 1 + 20
    provider.begin()
    assert ask("--json", "--output", out, confirmed=()).json == done.json  # nothing is left to confirm
    assert provider.requests == []


def test_a_larger_sample_asks_for_what_is_new(provider, ask, tmp_path):
    """The smaller sample is a part of it."""
    out = tmp_path / "answers.jsonl"
    ask("--output", out, calls=2)
    assert ask("--output", out, "--json", calls=5).json["calls"] == 5
    assert len(provider.requests) == 20


def test_answers_of_another_experiment_are_refused(provider, ask, tmp_path):
    """Another policy, another seed, fewer calls, another file: each is named, and nothing is sent or lost."""
    out = tmp_path / "answers.jsonl"
    ask("--output", out)
    kept, asked = out.read_bytes(), len(provider.requests)
    for more, calls, words in (
        (("--budget", 6000), 5, "other policy"),
        (("--seed", 1), 5, "other seed"),
        (("--reply-tokens", 500), 5, "other reply_tokens"),
        ((), 2, "not in this sample"),
    ):
        done = ask("--output", out, *more, calls=calls)
        assert done.code == 2
        assert words in done.err
    assert (out.read_bytes(), len(provider.requests)) == (kept, asked)
    (tmp_path / "notes.txt").write_text("milk\n")
    assert "is not a file of answers" in ask("--output", tmp_path / "notes.txt").err
    assert (tmp_path / "notes.txt").read_text() == "milk\n"
    lines = kept.splitlines(keepends=True)
    out.write_bytes(b"".join([*lines[:3], b"{}\n", *lines[4:]]))
    assert "line 4, is damaged" in ask("--output", out).err


def test_whole_prompts_that_the_model_does_not_take_are_counted_and_not_asked(provider, ask):
    """A window of 16k: only calls whose whole prompt fits are drawn, and the rest are said."""
    done = ask("--ask", "gpt-3.5-turbo", "--json", calls=50)
    counts = done.json["survey"]
    assert counts["beyond_window"] > 0
    assert len(counts["sample"]) == counts["folded"] - counts["beyond_window"]
    assert max(request.tokens for request in provider.requests) <= find("gpt-3.5-turbo").max_input
    whole = [request.raw.decode() for request in provider.requests if RECALL_TOOL not in request.raw.decode()]
    assert len(whole) == 2 * len(counts["sample"])
    assert not any("left out" in text for text in whole)  # nothing is cut to make it fit
    text = ask("--ask", "gpt-3.5-turbo", calls=50, confirmed=()).out
    assert f"the model takes the whole prompt of all but {counts['beyond_window']}" in " ".join(text.split())


def test_any_compatible_endpoint_can_be_asked(provider, ask, monkeypatch, tmp_path):
    """A model that nobody knows, at an address of one's own: no price, the key that is named for it, no secret in the file."""
    monkeypatch.setenv("MY_KEY", "sk-mine-0123456789")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9")  # never used
    out = tmp_path / "answers.jsonl"
    address = provider.url.replace("//", "//me:hunter2@")
    more = ("--ask", "my-own", "--endpoint", f"{address}/v1", "--key-env", "MY_KEY", "--output", out)
    done = ask(*more, calls=2)
    assert done.code == 0
    assert "its price is not known" in " ".join(done.out.split())
    assert provider.last.body["max_tokens"] == 4096
    assert not re.search("hunter2|sk-mine|scripted", out.read_text() + done.out + done.err)


def test_without_a_model_the_command_says_what_it_needs(run, recorded, provider):
    """There is nothing to compare."""
    done = run("bench", recorded("alpha"))
    assert (done.code, provider.requests) == (2, [])
    assert "--ask MODEL is missing" in done.err


def test_a_budget_that_folds_nothing_is_an_error(ask, provider):
    """No call would show a difference."""
    done = ask("--budget", 500_000)
    assert (done.code, provider.requests) == (2, [])
    assert "none of 21 recorded calls would be folded; name a smaller --budget" in done.err
