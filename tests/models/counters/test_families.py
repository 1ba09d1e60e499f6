"""Model ids to counters, factors and what is said about their error."""

import pytest

from foveal.models.counters import counter_for, families
from foveal.models.counters.fallback import ByteClassCounter

CASES = [
    ("gpt-5", "o200k_base", 1.0, True),
    ("openai/gpt-5.6-sol", "o200k_base", 1.0, True),
    ("azure-gpt-5.4", "o200k_base", 1.0, True),
    ("gpt-4o-mini", "o200k_base", 1.0, True),
    ("gpt-4.1-nano", "o200k_base", 1.0, True),
    ("o3", "o200k_base", 1.0, True),
    ("o4-mini-2025-04-16", "o200k_base", 1.0, True),
    ("gpt-oss-120b", "o200k_base", 1.0, True),
    ("gpt-4", "cl100k_base", 1.0, True),
    ("gpt-4-turbo", "cl100k_base", 1.0, True),
    ("gpt-3.5-turbo-0125", "cl100k_base", 1.0, True),
    ("gpt-6-sol", "o200k_base", 1.1, False),
    ("claude-3-5-sonnet-20241022", "o200k_base", 1.45, False),
    ("claude-sonnet-4-20250514", "o200k_base", 1.45, False),
    ("aws-claude-opus-4-5", "o200k_base", 1.45, False),
    ("us.anthropic.claude-opus-4-6-v1:0", "o200k_base", 1.45, False),
    ("claude-opus-4-7", "o200k_base", 1.8, False),
    ("claude-opus-4.8", "o200k_base", 1.8, False),
    ("claude-fable-5", "o200k_base", 1.8, False),
    ("claude-5.5-haiku", "o200k_base", 1.8, False),
    ("claude-latest", "o200k_base", 1.8, False),
    ("gemini-2.5-pro", "o200k_base", 1.35, False),
    ("google/gemma-3-27b-it", "gemma3", 1.001, False),
    ("meta-llama/Llama-3.3-70B-Instruct", "llama3", 1.0, True),
    ("llama-4-scout", "llama3", 1.15, False),
    ("qwen2.5-coder:7b", "qwen3", 1.001, False),
    ("qwen3.8-max", "qwen3", 1.1, False),
    ("deepseek-v3.2", "deepseek_v3", 1.0, True),
    ("deepseek-v4-pro", "deepseek_v3", 1.1, False),
    ("mistral-large-latest", "mistral_v3", 1.02, False),
    ("codestral-2508", "mistral_v3", 1.02, False),
    ("open-mixtral-8x22b", "mistral_v2", 1.02, False),
    ("glm-4.6", "glm4", 1.02, False),
    ("kimi-k2-thinking", "kimi_k2", 1.02, False),
    ("phi-4", "phi4", 1.02, False),
    ("grok-4", "o200k_base", 1.5, False),
    ("no-such-model", "o200k_base", 1.5, False),
    ("", "o200k_base", 1.5, False),
]


@pytest.mark.parametrize(("model", "vocabulary", "factor", "exact"), CASES)
def test_a_model_id_finds_its_counter(model: str, vocabulary: str, factor: float, exact: bool) -> None:
    """Whatever host spells the id, its family's vocabulary and safe factor apply."""
    found = counter_for(model)
    assert (found.counter.name, found.factor, found.exact) == (vocabulary, factor, exact)
    assert found.error


@pytest.mark.parametrize("vocabulary", sorted({row.vocabulary for row in families._FAMILIES}))
def test_every_vocabulary_in_the_table_is_packaged(vocabulary: str) -> None:
    """No family quietly falls back: its vocabulary loads, counts, and takes special-token text as text."""
    counter = families.encoding(vocabulary)
    assert 0 < counter.count("hello wörld, 你好 \ud800\x00") < 30
    assert counter.count("<|endoftext|></think>[INST]<bos>") > 4
    assert counter.name == vocabulary


def test_only_factors_of_one_are_called_exact() -> None:
    """A row that adds something does not claim to be exact, and no row takes anything away."""
    rows = (*families._FAMILIES, families._CLAUDE_NEW, families._CLAUDE_OLD, families._UNKNOWN)
    assert all(row.factor == 1.0 for row in rows if row.exact)
    assert all(row.factor >= 1.0 and row.over_o200k >= 1.0 for row in rows)


def test_without_the_library_no_model_is_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    """The estimate is of o200k, so a family with a finer vocabulary gets its distance from o200k on top."""
    monkeypatch.setattr(
        families, "encoding", lambda name: ByteClassCounter(stands_for=name, reason="splintr is not installed")
    )
    found = counter_for("mistral-large-latest")
    assert found.factor == pytest.approx(1.02 * 1.25)
    assert not found.exact
    assert found.error.startswith("splintr is not installed")
