"""The families of models: which counter, and which factor, for a model id.

The factors of Claude were measured: for successive calls of recorded sessions, the growth of the billed input against the
o200k_base count of the messages between (`scripts/fit_counters.py` prints the table these numbers were set from). The
Codex recordings of GPT-5.4 to 5.6 show a slope of 1.00 to 1.01 the same way, which makes the method credible.
"""

import re

import msgspec

from foveal.models.counters.counter import Counter
from foveal.models.counters.encodings import encoding
from foveal.models.counters.fallback import ByteClassCounter


class ModelCounter(msgspec.Struct, frozen=True):
    """The way of counting for one model: `counter` times `factor` lies on the safe upper side before any calibration."""

    counter: Counter
    factor: float
    error: str
    exact: bool
    family: str


class _Family(msgspec.Struct, frozen=True):
    """One row: the first whose pattern is found in the model id applies."""

    pattern: str
    family: str
    vocabulary: str
    factor: float
    error: str
    exact: bool = False
    over_o200k: float = 1.0  # p95 of this vocabulary's count over o200k's, for when only the estimate is at hand


_EXACT = "exact for text; framing is the dialect's"
_UNCHECKED = "the published vocabulary, not cross-checked against a second implementation"

_START = r"(?:^|[/.:@_-])"  # ids carry hosts in front: "aws-claude-…", "openai/gpt-5", "us.anthropic.claude-…"

_FAMILIES = (
    _Family(
        _START + r"(?:gpt-4o|chatgpt-4o|gpt-4\.[15]|gpt-oss|o[1-9](?:$|[-@:]))",
        "openai",
        "o200k_base",
        1.0,
        _EXACT,
        True,
    ),
    _Family(_START + r"(?:gpt-5|codex-mini|computer-use)", "openai", "o200k_base", 1.0, _EXACT, True),
    _Family(_START + r"gpt-(?:4|3\.5|35)(?:$|[-@:])", "openai", "cl100k_base", 1.0, _EXACT, True, 1.02),
    _Family(
        _START + r"gpt-(?:[6-9]|\d\d)",
        "openai",
        "o200k_base",
        1.1,
        "the vocabulary of this generation is not published; o200k_base was exact through GPT-5.6, 10 % are added",
    ),
    _Family(
        r"gemini",
        "gemini",
        "o200k_base",
        1.35,
        "no public vocabulary and no recorded usage: Gemma's vocabulary of the same lineage counts 1.17 times o200k_base "
        "(p95 of 2 000-character chunks: 1.34)",
    ),
    _Family(
        r"gemma", "gemma", "gemma3", 1.001, "3 tokens in 100 000 differ from the reference tokenizer", over_o200k=1.34
    ),
    _Family(_START + r"(?:llama-?2|code-?llama|tinyllama|vicuna)", "llama", "llama2", 1.02, _UNCHECKED, over_o200k=1.5),
    _Family(r"llama-?v?3", "llama", "llama3", 1.0, _EXACT, True, 1.02),
    _Family(
        r"llama", "llama", "llama3", 1.15, "counted with the vocabulary of Llama 3, 15 % are added", over_o200k=1.02
    ),
    _Family(
        r"qwen-?(?:3\.[5-9]|[4-9])",
        "qwen",
        "qwen3",
        1.1,
        "counted with the vocabulary of Qwen 3, 10 % are added",
        over_o200k=1.19,
    ),
    _Family(r"qwen|qwq", "qwen", "qwen3", 1.001, "6 tokens in 100 000 differ, in odd Unicode", over_o200k=1.19),
    _Family(r"deepseek-(?:v3|r1)", "deepseek", "deepseek_v3", 1.0, _EXACT, True, 1.13),
    _Family(
        r"deepseek",
        "deepseek",
        "deepseek_v3",
        1.1,
        "counted with the vocabulary of DeepSeek V3, 10 % are added",
        over_o200k=1.13,
    ),
    _Family(r"mi[sx]tral-(?:7b|8x7b)|mixtral-8x22b", "mistral", "mistral_v2", 1.02, _UNCHECKED, over_o200k=1.48),
    _Family(
        r"[a-z]{2,}tral(?:$|[-/:@_])",
        "mistral",
        "mistral_v3",
        1.02,
        _UNCHECKED,
        over_o200k=1.25,
    ),
    _Family(r"glm|z-ai", "glm", "glm4", 1.02, _UNCHECKED, over_o200k=1.08),
    _Family(r"kimi|moonshot", "kimi", "kimi_k2", 1.02, _UNCHECKED, over_o200k=1.02),
    _Family(r"phi-?4", "phi", "phi4", 1.02, _UNCHECKED, over_o200k=1.03),
)

_CLAUDE_NEW = _Family(
    "",
    "claude",
    "o200k_base",
    1.8,
    "measured on 57 sessions of Claude 4.7 to 5: the median session is billed 1.59 times o200k_base, p95 1.68, and 1.81 "
    "where thinking that the provider hides is billed along",
)
_CLAUDE_OLD = _Family(
    "",
    "claude-4",
    "o200k_base",
    1.45,
    "measured on 308 sessions of Claude 4.5 and 4.6: the median session is billed 1.21 times o200k_base, p95 1.41, max 1.56",
)
_UNKNOWN = _Family(
    "",
    "unknown",
    "o200k_base",
    1.5,
    "unknown model: every public vocabulary measured stays below 1.5 times o200k_base in 95 % of 2 000-character chunks",
)

_COMPILED = tuple((re.compile(row.pattern).search, row) for row in _FAMILIES)
_CLAUDE_VERSION = re.compile(r"claude-(?:[a-z]+-)?v?(\d{1,2})(?:[-.](\d{1,2}))?(?!\d)")
_CLAUDE_NEW_SINCE = (4, 7)  # the recordings show the step from 1.2 to 1.6 between Opus 4.6 and Opus 4.7


def counter_for(model: str) -> ModelCounter:
    """Return the counter, safe factor and known error for a model id in any provider's spelling."""
    row = _family(model.lower())
    counter = encoding(row.vocabulary)
    if isinstance(counter, ByteClassCounter):
        error = f"{counter.reason}: estimated from byte classes, on average 40 % above the exact count; {row.error}"
        return ModelCounter(counter, row.factor * row.over_o200k, error, exact=False, family=row.family)
    return ModelCounter(counter, row.factor, row.error, row.exact, row.family)


def _family(model: str) -> _Family:
    if "claude" in model:
        return _claude(model)
    return next((row for search, row in _COMPILED if search(model)), _UNKNOWN)


def _claude(model: str) -> _Family:
    """Return the family of a Claude. An id whose version cannot be read counts as new: the larger factor."""
    found = _CLAUDE_VERSION.search(model)
    if found is None:
        return _CLAUDE_NEW
    version = int(found[1]), int(found[2] or 0)
    return _CLAUDE_NEW if version >= _CLAUDE_NEW_SINCE else _CLAUDE_OLD
