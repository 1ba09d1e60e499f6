"""Weights that a policy names choose the lines of every summary that it makes, with and without prose."""

from typing import Any

import msgspec
import pytest

import foveal
from foveal.analysis.inspect.stored_session import recorded_setup
from foveal.session.rebuild import prompt_at, setup_at
from foveal.stores.port import Store
from foveal.summary.prose import summary_in, with_prose
from foveal.summary.relevance import LineSelection
from foveal.summary.relevance.weights import LINE_FEATURES, NAME_FEATURES, Tree, Weights
from foveal.values.entry import Fold, RangeFold

AGE = 40.5
PROSE = "## Goal\nShip it.\n## Constraints\nnone\n## State\nnone\n## Decisions\nnone\n## Next\nnone"


def by_age(*, up_to: float, above: float) -> Weights:
    """Weights with one score for everything newer than AGE messages, and another for everything older."""
    trees = (Tree(((0, AGE, -1, -2),), (up_to, above)),)
    return Weights(trees, trees)


OLD, NEW = by_age(up_to=-9.0, above=2.0), by_age(up_to=2.0, above=-9.0)


def folded(store: Store | None = None, **options: Any) -> tuple[foveal.Session, Fold]:
    """A session of forty reads, folded once by a summary alone."""
    policy = foveal.Policy(max_context_tokens=12_000, stages=(foveal.stages.Summarise(share=0.1, **options),))
    session = foveal.Session(store or foveal.open_store(), "s", model="gpt-5", policy=policy)
    session.append(foveal.user("Go through the files."))
    for n in range(40):
        session.append(foveal.assistant("", foveal.ToolCall(f"c{n}", "read_file", f'{{"path": "src/part_{n}.py"}}')))
        session.append(foveal.result(f"c{n}", "\n".join(f"def handler_{n}_{i}(request): ..." for i in range(20))))
    fold = session.compaction.fold()
    assert fold
    return session, fold


def text_of(fold: Fold) -> str:
    item = summary_in(fold)
    assert item
    return item.text


def reads(text: str) -> set[int]:
    """Which of the reads it shows lines of."""
    return {n for n in range(40) if f"handler_{n}_" in text}


def test_the_weights_of_a_policy_choose_the_lines() -> None:
    """With weights for age the oldest lines are shown, with weights for youth the newest."""
    old, new = reads(text_of(folded(weights=OLD)[1])), reads(text_of(folded(weights=NEW)[1]))
    assert old
    assert new
    assert max(old) < min(new)


@pytest.mark.parametrize("options", [{"weights": OLD}, {"score": "recency"}], ids=["weights", "recency"])
def test_prose_leaves_the_choice_to_the_same_score(options: dict[str, Any]) -> None:
    """Lines are chosen again beside it, by what the policy says."""
    session, fold = folded(**options)
    counted: dict[str, Any] = {"count": len, "shown": ()}
    selection = LineSelection(**options)
    written = with_prose(fold, PROSE, "me", **counted, selection=selection)
    by_package = with_prose(fold, PROSE, "me", **counted)
    assert text_of(written) != text_of(by_package)
    assert session._folds._summary_writer._with_prose.keywords == {"selection": selection}


def test_the_log_holds_the_hash_and_a_past_prompt_needs_no_more() -> None:
    """The setup names the weights; reading it back gives a policy that says the same."""
    store = foveal.open_store()
    session, _ = folded(store, weights=OLD)
    prompt = session.prompt()
    setup = setup_at(store, "s")
    assert OLD.name in setup.policy
    assert len(setup.policy) < 1_000
    optics = recorded_setup(setup)
    assert optics.policy == session._journal.setup.policy
    assert prompt_at(store, "s", optics, None).request == prompt.request


def test_a_stage_with_a_score_by_age_takes_no_weights() -> None:
    """A stage that scores by age refuses weights, because it would never use them."""
    with pytest.raises(foveal.errors.BadPolicy, match="weights are not looked at with score = 'recency'"):
        foveal.stages.Summarise(score="recency", weights=OLD)


def test_features_begin_with_the_age() -> None:
    """The weights in this file assume that age is the first feature."""
    assert NAME_FEATURES[0] == LINE_FEATURES[0] == "age"


def test_a_fold_is_replaced_not_changed() -> None:
    """The fold that code wrote is as it was."""
    _, fold = folded(weights=OLD)
    before = msgspec.json.encode(fold)
    with_prose(fold, PROSE, "me", count=len, shown=(), selection=LineSelection(weights=OLD))
    assert msgspec.json.encode(fold) == before
    assert any(isinstance(item, RangeFold) for item in fold.items)
