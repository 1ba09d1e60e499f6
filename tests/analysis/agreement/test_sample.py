"""The draw: by seed, evenly, and the same again."""

import json
from collections import Counter

import pytest

from foveal.analysis.agreement.sample import AskTerms, askable_pairs, dealt, offered_tools, survey
from foveal.analysis.recordings import read
from foveal.cli.budget import with_budget
from foveal.session.policy import Policy

TERMS = AskTerms("gpt-5-mini", "openai_chat", with_budget(Policy(), 3_000), 1_000)


def lines_of(name, steps):
    yield {"role": "user", "content": f"Look at everything in {name}."}
    for i in range(steps):
        function = {"name": "read", "arguments": json.dumps({"path": f"{name}/{i}.py", "whole": True})}
        yield {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": f"{name}{i}", "type": "function", "function": function}],
        }
        yield {"role": "tool", "tool_call_id": f"{name}{i}", "content": f"{name} {i}\n" * 150}


@pytest.fixture
def files(tmp_path):
    """Three files: one of four sessions, two of one."""
    found = []
    for file, names in (("many", "abcd"), ("one", "e"), ("other", "f")):
        found.append(tmp_path / f"{file}.jsonl")
        texts = [json.dumps({"id": name, "messages": list(lines_of(name, 14))}) for name in names]
        found[-1].write_text("\n".join(texts) + "\n")
    return found


def test_cards_are_dealt_from_each_stratum_in_turn():
    """The first of each, then the second of each, until all are out."""
    assert dealt(["abc", "d", "ef"]) == ["a", "d", "e", "b", "f", "c"]
    assert dealt([]) == []


def test_files_have_equal_shares_however_many_sessions_they_hold(files):
    """Twelve calls of three files: four of each, and of the file with four sessions one of each session."""
    found = survey(files, TERMS, calls=12, seed=0)
    assert Counter(call.session for call in found.sample) == {"e": 4, "f": 4, **dict.fromkeys("abcd", 1)}
    assert all(call.folded_tokens <= 3_000 < call.whole_tokens for call in found.sample)
    assert found.calls == 6 * 14
    assert len({call.digest for call in found.sample}) == 12


def test_the_seed_chooses_and_the_order_of_files_does_not(files):
    """The same seed draws the same calls; another one others; a larger sample holds the smaller one."""
    first = survey(files, TERMS, calls=6, seed=0).sample
    assert survey(files[::-1], TERMS, calls=6, seed=0).sample == first
    assert survey(files, TERMS, calls=6, seed=1).sample != first
    assert set(first) < set(survey(files, TERMS, calls=12, seed=0).sample)


def test_a_session_that_is_in_two_files_is_drawn_once(files, tmp_path):
    """A copy adds nothing."""
    copy = tmp_path / "copy.jsonl"
    copy.write_bytes(files[1].read_bytes())
    found = survey([files[1], copy], TERMS, calls=50, seed=0)
    assert len({call.digest for call in found.sample}) == len(found.sample) == found.folded // 2
    assert found.notes == (
        "2 sessions: the file does not hold the tools; those that were called are offered, with the arguments seen",
    )


def test_another_policy_gives_other_digests(files):
    """An answer to one folded prompt is none to another."""
    lower = AskTerms("gpt-5-mini", "openai_chat", with_budget(Policy(), 2_000), 1_000)
    here, there = (survey(files[1:2], terms, calls=20, seed=0).sample for terms in (TERMS, lower))
    assert not {call.digest for call in here} & {call.digest for call in there}


def test_the_drawn_pairs_are_found_again(files):
    """The second replay makes the same requests, whole and folded, and stops when it has them all."""
    sample = survey(files, TERMS, calls=5, seed=0).sample
    found = list(askable_pairs(files, TERMS, {call.digest: call.session for call in sample}))
    assert {one.pair.sampled for one in found} == set(sample)
    for one in found:
        whole, folded = (json.dumps(prompt.request["messages"]) for prompt in (one.pair.whole, one.pair.folded))
        assert all(f"{one.pair.sampled.session} {i}\\n" in whole for i in range(one.pair.sampled.call - 1))
        assert len(folded) < len(whole)


def test_tools_that_the_file_does_not_hold_are_made_of_the_calls(files):
    """Without tools no model could act: those that were called are offered, with the arguments that were seen, and it is told."""
    (recording,) = read(files[1])
    tools, notes = offered_tools(recording, "openai_chat")
    (function,) = (tool["function"] for tool in tools)
    assert function["name"] == "read"
    assert function["parameters"]["properties"] == {"path": {"type": "string"}, "whole": {"type": "boolean"}}
    assert "does not hold the tools" in notes[0]


def test_nothing_is_drawn_where_everything_fits(files):
    """A call whose prompt is shown whole says nothing about folds."""
    terms = AskTerms("gpt-5-mini", "openai_chat", with_budget(Policy(), 200_000), 1_000)
    found = survey(files, terms, calls=5, seed=0)
    assert (found.folded, found.sample) == (0, ())
