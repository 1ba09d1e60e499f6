"""Agreement, its intervals and the noise it is held against."""

from typing import Any

import pytest

from foveal.analysis.agreement.actions import next_actions
from foveal.analysis.agreement.report import Rate, difference, rate, report
from foveal.analysis.agreement.sample import SampledCall, Survey
from foveal.analysis.agreement.trials import Answer, PromptKind, Trial
from foveal.values.entry import ToolCall


def sampled(number, whole=40_000, folded=10_000):
    return SampledCall("s", number, whole, folded, 50, f"digest {number}")


def answered(call, whole, folded):
    """Answers of two trials each: the paths that were read, or the fault."""
    found: dict[Trial, Answer] = {}
    kinds: tuple[tuple[PromptKind, Any], ...] = (("whole", whole), ("folded", folded))
    for kind, paths in kinds:
        for number, path in enumerate(paths, 1):
            trial = Trial(call.digest, kind, number)
            actions = next_actions([ToolCall("c", "read", f'{{"path": "{path}"}}')], "")
            failed: dict[str, Any] = {"fault": path[1:]} if path.startswith("!") else {"actions": actions}
            found[trial] = Answer(trial, call.session, call.call, cost_usd=0.5, input_tokens=100, **failed)
    return found


def ends(one: Rate):
    assert one.interval
    return one.interval.low, one.interval.high


def reported(*cases):
    calls = [sampled(i, **(case[2] if len(case) > 2 else {})) for i, case in enumerate(cases)]
    answers = {}
    for call, (whole, folded, *_) in zip(calls, cases, strict=True):
        answers |= answered(call, whole, folded)
    return report("m", Survey(sample=tuple(calls)), answers)


@pytest.mark.parametrize(
    ("shares", "low", "high"), [([0] * 10, 0.0, 0.2775), ([1] * 10, 0.7225, 1.0), ([0.5] * 100, 0.4038, 0.5962)]
)
def test_the_interval_is_wilsons(shares, low, high):
    """Known values: unanimous calls leave room for doubt, and more so the fewer they are."""
    assert ends(rate(shares)) == pytest.approx((low, high), abs=1e-4)


def test_a_difference_of_unanimous_rates_is_not_certain():
    """Newcombe's interval of 56 of 70 less 48 of 80 is 0.0524 to 0.3339, and that of all less all is not empty."""
    found = difference(rate([1] * 56 + [0] * 14), rate([1] * 48 + [0] * 32))
    assert ends(found) == pytest.approx((0.0524, 0.3339), abs=1e-4)
    low, high = ends(difference(rate([1] * 5), rate([1] * 5)))
    assert low == -high < -0.4


def test_a_fold_that_changes_the_action_is_beyond_noise():
    """The model agrees with itself under either prompt, and never across."""
    _, target, _ = reported(*[(("a.py", "a.py"), ("b.py", "b.py"))] * 4).overall
    assert (target.folded_and_whole.share, target.whole_twice.share, target.folded_twice.share) == (0, 1, 1)
    assert target.beyond_noise.share == 1


def test_a_model_that_disagrees_with_itself_is_not_held_against_the_fold():
    """Answers that vary as much with one prompt as with the other: agreement is low, and nothing is beyond noise."""
    cases = [
        (("a", "a"), ("a", "a")),
        (("a", "b"), ("a", "a")),
        (("a", "a"), ("b", "a")),
        (("a", "b"), ("b", "a")),
        (("b", "b"), ("a", "b")),
        (("b", "a"), ("b", "b")),
        (("b", "b"), ("a", "a")),
        (("b", "a"), ("a", "b")),
    ]
    target = reported(*cases).overall[1]
    assert target.folded_and_whole.share == pytest.approx(0.5)
    assert target.whole_twice.share == target.folded_twice.share == 0.5
    assert target.beyond_noise.share == pytest.approx(0)


def test_calls_are_grouped_by_how_much_the_fold_leaves():
    """A fold that leaves little and one that leaves much are told apart."""
    far, near = {"folded": 8_000}, {"folded": 36_000}
    done = reported((("a", "a"), ("b", "b"), far), (("a", "a"), ("a", "a"), near))
    shares = {name: one.folded_and_whole.share for name, one in done.by_reach.items()}
    assert shares == {"0 to 1/4": 0, "3/4 to 1": 1}


def test_a_failed_answer_is_counted_and_compared_with_nothing():
    """A call without an answer to one of its prompts is no call of the comparison; one answer of two still is."""
    done = reported((("a", "a"), ("!refusal", "!raised")), (("a", "!cut_off"), ("a", "a")))
    assert done.calls == 1
    assert done.overall[1].folded_and_whole.calls == 1
    assert done.overall[1].whole_twice.calls == 0
    assert done.bills["folded"].failed == {"refusal": 1, "raised": 1}
    assert done.bills["whole"].failed == {"cut_off": 1}
    assert (done.bills["whole"].answers, done.bills["whole"].cost_usd) == (3, 2.0)
