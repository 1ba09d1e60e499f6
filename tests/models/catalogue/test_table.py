"""Finding models under the names they go by, and what is said about those that are not found."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foveal.models import catalogue as prices
from foveal.models.catalogue import ModelFacts, all_models, data_about, find

DATA = Path(prices.__file__).with_name("models.json")

FOUND = [
    ("gpt-5", "exact id: openai/gpt-5"),
    ("GPT-5", "exact id: openai/gpt-5"),
    ("openai/gpt-5", "exact id: openai/gpt-5"),
    ("gpt-5-2025-08-07", "without date: openai/gpt-5"),
    ("gpt-4o", "exact id: openai/gpt-4o"),
    ("gpt-4-0613", "without date: openai/gpt-4"),
    ("azure/gpt-4o", "without host and revision: openai/gpt-4o"),
    ("azure-gpt-5.4", "without host and revision: openai/gpt-5.4"),
    ("gpt-35-turbo", "exact id: openai/gpt-3.5-turbo"),
    ("aws-claude-opus-4-5", "without host and revision: anthropic/claude-opus-4-5"),
    ("claude-opus-4.5", "exact id: anthropic/claude-opus-4-5"),
    ("claude-opus-4-5@20251101", "without date: anthropic/claude-opus-4-5"),
    ("anthropic.claude-opus-4-5-20251101-v1:0", "without date: anthropic/claude-opus-4-5"),
    ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", "without date: anthropic/claude-sonnet-4-5"),
    ("openrouter/anthropic/claude-sonnet-4.5", "without host and revision: anthropic/claude-sonnet-4-5"),
    ("gemini/gemini-2.5-pro", "without host and revision: google/gemini-2.5-pro"),
    ("models/gemini-2.5-flash", "without host and revision: google/gemini-2.5-flash"),
    ("gemini-2.0-flash-001", "without date: google/gemini-2.0-flash"),
    ("groq/openai/gpt-oss-120b", "exact id: groq/openai/gpt-oss-120b"),
    ("openai/gpt-oss-120b", "exact id: openai/gpt-oss-120b"),
    ("bedrock/us.amazon.nova-pro-v1:0", "without host and revision: amazon/amazon.nova-pro-v1:0"),
    ("x-ai/grok-4.5", "exact id, another name of: xai/grok-4.5"),
    ("o4-mini-high", "exact id, another name of: openai/o4-mini"),
    ("gpt-5-mini-acme", "no entry of its own; limits and prices are those of the id it begins with: openai/gpt-5-mini"),
]


@pytest.mark.parametrize(("model", "note"), FOUND)
def test_a_model_is_found_and_the_note_says_how(model: str, note: str) -> None:
    """Hosts, revisions and dates are looked through; the id stays as the caller wrote it."""
    facts = find(model)
    assert (facts.id, facts.known, facts.notes[0]) == (model, True, note)


@pytest.mark.parametrize(
    "model", ["gpt-4.7", "gpt-5.9-mini", "claude-opus-4-9", "gpt-4x", "o33", "my-own-model", "", "/", "a/b/c:d"]
)
def test_a_model_that_only_looks_like_a_known_one_is_unknown(model: str) -> None:
    """A version that is not in the table is another model; it gets a small window and no price."""
    facts = find(model)
    assert not facts.known
    assert facts.window == facts.max_input == 32_000
    assert (facts.price_input, facts.price_output, facts.price_cache_read, facts.price_cache_write) == (None,) * 4
    assert "32,000" in facts.notes[0]


def test_well_known_models_have_their_published_figures() -> None:
    """A few figures anybody can check, so that a bad update of the data does not pass unseen."""
    gpt, opus, gemini = find("gpt-5"), find("claude-opus-4-5"), find("gemini-2.5-pro")
    assert (gpt.window, gpt.max_input, gpt.price_input, gpt.price_cache_read, gpt.price_cache_write) == (
        400_000,
        272_000,
        1.25,
        0.125,
        1.25,
    )
    assert (opus.window, opus.price_input, opus.price_cache_read, opus.price_cache_write) == (200_000, 5.0, 0.5, 6.25)
    assert (opus.dialect, opus.cache_minimum) == ("anthropic", 4_096)
    assert (gemini.window, gemini.dialect) == (1_048_576, "gemini")
    assert gemini.long_prices is not None
    assert (gemini.long_prices.above, gemini.long_prices.input, gemini.long_prices.cache_write) == (200_000, 2.5, 2.5)


def test_every_model_is_found_under_its_own_key() -> None:
    """The listing and the lookup agree, and every entry is usable."""
    models = all_models()
    assert len(models) > 500
    for facts in models:
        found = find(facts.id)
        assert found.notes[0] == f"exact id: {facts.id}"
        assert (found.window, found.price_input) == (facts.window, facts.price_input)
        assert 0 < facts.max_input <= facts.window
        assert facts.price_input is None or facts.price_input >= 0
        assert (facts.price_cache_write is None) == (facts.price_input is None)


@given(
    st.text(max_size=40)
    | st.lists(st.sampled_from(["gpt-4", "claude", "-", ".", "/", ":", "v1", "20250101", "us."]), max_size=8).map(
        "".join
    )
)
def test_no_id_raises(model: str) -> None:
    """Any str is found or unknown."""
    assert find(model).id == model


def test_the_data_file_reads_well_in_a_diff() -> None:
    """One model a line, sorted, small, and it says where it comes from."""
    text = DATA.read_text(encoding="utf-8")
    lines = [
        line
        for line in text.splitlines()
        if ": {" in line and not line.startswith('"about"') and not line.startswith('"models"')
    ]
    names = list(json.loads(text)["models"])
    assert len(lines) == len(names)
    assert names == sorted(names, key=str.lower)
    assert DATA.stat().st_size < 300_000
    assert data_about()["sources"]


def test_an_override_wins_field_by_field() -> None:
    """What the policy sets replaces the data; what follows from it follows; the rest stays."""
    facts = find("gpt-5", {"gpt-5": {"window": 64_000, "price_output": 3}})
    assert (facts.window, facts.max_input, facts.price_output, facts.price_input) == (64_000, 64_000, 3.0, 1.25)
    assert facts.notes[-1] == "set by the policy: price_output, window"


def test_an_override_makes_an_unknown_model_known() -> None:
    """A window is what the engine needs; a price of zero is a price."""
    facts = find("my-model", {"My-Model": {"window": 64_000, "price_input": 0.0, "dialect": "anthropic"}})
    assert facts == ModelFacts(
        id="my-model",
        dialect="anthropic",
        window=64_000,
        max_input=64_000,
        price_input=0.0,
        price_cache_read=0.0,
        price_cache_write=0.0,
        known=True,
        notes=("set by the policy: dialect, price_input, window",),
    )


def test_an_override_without_a_window_leaves_the_model_unknown() -> None:
    """A price alone does not tell how much fits; the assumed window stays said."""
    facts = find("my-model", {"my-model": {"price_input": 1.0}})
    assert not facts.known
    assert "32,000" in facts.notes[0]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"windw": 64_000}, "did you mean 'window'"),
        ({"price_inputs": 1}, "did you mean 'price_input'"),
        ({"zzz": 1}, "did you mean"),
        ({"window": "large"}, "is not valid"),
        ({"window": 0}, "window of model 'my-model' is 0"),
        ({"price_output": -1.0}, "price_output of model 'my-model' is -1.0"),
        ({"dialect": "soap"}, "is not valid"),
    ],
)
def test_a_wrong_override_is_refused_with_the_fix(fields: dict[str, object], message: str) -> None:
    """A typo in the policy file is loud, also for a model that is not asked for."""
    with pytest.raises(ValueError, match=message):
        find("gpt-5", {"my-model": fields})
