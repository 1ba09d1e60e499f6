"""What holds after any of the stages, whatever happened before."""

import re
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from foveal.session.policy import (
    BudgetTable,
    Clear,
    History,
    Images,
    Policy,
    Shorten,
    Superseded,
    ThinkingWindow,
    policy_from,
)
from foveal.testing import oracles
from foveal.testing.builders import MODELS, Asks, Move, open_session
from foveal.testing.strategies import histories
from foveal.values.entry import Message, Text, ToolResult
from foveal.values.errors import BadInput, OverBudget, Unrepresentable
from foveal.values.shown import entry_ref
from foveal_bench.oldest import Oldest

SLOW = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example, HealthCheck.filter_too_much)
OLDEST: Any = Oldest(keep=0.0, last_resort=True)  # untyped: benchmarks alone use it, and no policy names it
RESCUE = (Shorten(keep=0.0, last_resort=True), Clear(keep=0.0, last_resort=True), OLDEST)
STAGES = {
    "superseded": Superseded(written=True),
    "history, per run": History(),
    "history, per pair": History(window="per_pair", keep=2, mode="compress", max_pair_tokens=300),
    "history, none": History(window="none", max_pairs=1, max_pair_tokens=100),
    "thinking": ThinkingWindow(),
    "images": Images(keep=1, max_bytes=1_000),
}
REF = re.compile(r"\bref ([^\s;\]]+)[;\]]")


@pytest.mark.parametrize("name", sorted(STAGES))
@settings(max_examples=15, deadline=None, suppress_health_check=SLOW)
@given(moves=histories(size=8), limit=st.sampled_from((700, 1_500, 4_000)), dialect=st.sampled_from(sorted(MODELS)))
def test_a_prompt_is_valid_and_every_reference_leads_back(
    name: str, moves: list[Move], limit: int, dialect: str
) -> None:
    """In all four formats the request passes its rules within the limit, and what a stage folded can be recalled whole."""
    policy = Policy(budget=BudgetTable(limit=limit, reserve=0), stages=(STAGES[name], *RESCUE))
    session = open_session(dialect=dialect, policy=policy)
    said: dict[str, Message] = {}
    for move in moves:
        if isinstance(move, Message):
            said[session.append(move).id] = move
        elif isinstance(move, Asks):
            try:
                prompt = session.prompt()
            except BadInput as error:
                assert "nothing to send" in str(error)  # noqa: PT017 - the only complaint that a history may cause
                continue
            except (OverBudget, Unrepresentable):
                continue  # a refusal with sizes or names; anything else is a defect
            assert oracles.problems(prompt) == []
            assert prompt.tokens <= limit
            for fold in prompt.fold.items if prompt.fold else ():
                for ref in REF.findall(fold.text):
                    assert session.recall(ref) is not None
    _results_come_back(session, said)


def _results_come_back(session, said: dict[str, Message]) -> None:
    """Each result of the log is found under its reference, in its own words."""
    for entry, message in said.items():
        for i, part in enumerate(message.parts):
            if isinstance(part, ToolResult):
                texts = [item.text for item in part.content if isinstance(item, Text)]
                ref = entry_ref(entry) if i == 0 else f"{entry_ref(entry)}.{i}"
                assert all(text in session.recall(ref) for text in texts)


@pytest.mark.parametrize("name", sorted(STAGES))
def test_a_stage_is_data(name: str) -> None:
    """Written to a file and read again, it is the same."""
    table = msgspec.to_builtins(Policy(stages=(STAGES[name],)))
    assert policy_from(table).stages == (STAGES[name],)
