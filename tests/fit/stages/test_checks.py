"""Numbers that make no sense are refused where a stage is made, by stage and key."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foveal.session.policy import Clear, History, Images, Outline, Shorten, ThinkingWindow, policy_from
from foveal.session.policy_file import read_policy
from foveal.values.errors import BadPolicy
from foveal_bench.oldest import Oldest

SHARES = [(Shorten, "over"), (Shorten, "to"), (Shorten, "keep"), (Outline, "over"), (Outline, "to"), (Outline, "keep")]
SHARES += [(Clear, "keep"), (Oldest, "keep")]
COUNTS = [(History, "keep", 0), (History, "max_pairs", 0), (History, "max_pair_tokens", 1), (Images, "keep", 0)]
COUNTS += [(Images, "max_bytes", 0), (ThinkingWindow, "keep_loops", 1), (ThinkingWindow, "keep", 0)]


@pytest.mark.parametrize(("stage", "key"), SHARES)
@pytest.mark.parametrize("wrong", [-0.1, 1.5, 25, float("nan"), float("inf"), "0.5", True, None])
def test_a_share_outside_its_range_names_stage_key_and_range(stage: Any, key: str, wrong: Any) -> None:
    """A percentage where a share belongs is the likeliest slip."""
    with pytest.raises(BadPolicy, match=rf"{stage.__struct_config__.tag}: {key} is .*from 0 to 1"):
        stage(**{key: wrong})


@pytest.mark.parametrize(("stage", "key", "least"), COUNTS)
@pytest.mark.parametrize("wrong", [-1, 1.5, True, "3"])
def test_a_count_outside_its_range_names_stage_key_and_range(stage: Any, key: str, least: int, wrong: Any) -> None:
    """A negative or broken count."""
    with pytest.raises(BadPolicy, match=rf"{stage.__struct_config__.tag}: {key} is .*at least {least}"):
        stage(**{key: wrong})


@pytest.mark.parametrize("stage", [Shorten, Outline])
def test_what_cannot_get_shorter_is_a_contradiction(stage: Any) -> None:
    """Cutting to more than what is left alone."""
    with pytest.raises(BadPolicy, match=r"to is 0\.3 and over is 0\.2"):
        stage(over=0.2, to=0.3)


@given(st.floats(0, 1), st.floats(0, 1), st.floats(0, 1))
def test_every_share_is_taken(one: float, other: float, keep: float) -> None:
    """The ends of the range included."""
    assert Shorten(over=max(one, other), to=min(one, other), keep=keep).keep == keep
    assert Oldest(keep=keep).keep == Clear(keep=keep).keep == keep


@pytest.mark.parametrize(
    ("suffix", "text"),
    [
        ("toml", '[[stages]]\nfold = "expired"\n[[stages]]\nfold = "shorten"\nkeep = 25\n'),
        ("yaml", "stages:\n- fold: expired\n- fold: shorten\n  keep: 25\n"),
    ],
)
def test_a_file_says_where_it_is_wrong(tmp_path: Path, suffix: str, text: str) -> None:
    """The file, the stage by its number, the key and the range, in one line."""
    if suffix == "yaml":
        pytest.importorskip("yaml")
    path = tmp_path / f"policy.{suffix}"
    path.write_text(text)
    with pytest.raises(BadPolicy) as caught:
        read_policy(path)
    said = str(caught.value)
    assert said.startswith(f"{path}: shorten: keep is 25.0; it is a share of the limit, from 0 to 1")
    assert "stages[1]" in said
    assert "\n" not in said


@pytest.mark.parametrize(
    "table",
    [
        {"stages": [{"fold": "history", "keep": -3}]},
        {"stages": [{"fold": "images", "max_bytes": -1}]},
        {"stages": [{"fold": "thinking", "keep_loops": 0}]},
        {"stages": [{"fold": "outline", "over": 2}]},
    ],
)
def test_plain_data_says_where_it_is_wrong(table: dict[str, Any]) -> None:
    """The name of the source comes first, then the stage and the key."""
    stage = table["stages"][0]
    with pytest.raises(BadPolicy, match=rf"^mine: {stage['fold']}: {list(stage)[1]} is "):
        policy_from(table, "mine")
