"""Pains of size: loops, limits, counting, what is too large."""

import warnings
from typing import Any

import msgspec

from foveal.record.overflow import refusal_in
from foveal.session.model_setup import UnknownModelWarning, setup_for
from foveal.session.options import Model
from foveal.session.policy import Policy
from foveal.stores.large_results import ARTIFACT_BYTES
from foveal.stores.memory import MemoryStore
from foveal.summary.question import Question, messages_of
from foveal.testing import oracles
from foveal.testing.builders import READ_TOOL
from foveal.values.entry import Image, Usage, assistant, result, system, user
from foveal.values.errors import ContextOverflow, OverBudget
from foveal.values.events import CompactionEnded, SummaryRefused

from .scenes import PROSE, Watcher, asked, begun, call, filled, folds, opened, refused, said, text_of, works


def test_pain_01_compaction_loop() -> None:
    """Overhead that can never fit is refused with its parts at every call, and nothing is folded for it; where little is
    left beside it, a fold makes room for many calls."""
    session = opened(1_000)
    session.extend([system("rule " * 1_000), user("word " * 700)])
    for _ in range(3):
        refusal = refused(session, [READ_TOOL])
        assert refusal is not None, "a prompt that cannot fit was built"
        assert refusal.needed == sum(refusal.parts.values()) > refusal.limit
        assert {"tools", "system prompt", "latest request"} <= refusal.parts.keys()
    assert session.view.facts.folds == 0
    narrow = opened(4_000)
    narrow.extend([system("rule " * 3_300), user("Go.")])
    prompts = []
    for number in range(60):
        narrow.extend([assistant(f"step {number}"), user("ok")])
        prompts.append(asked(narrow))
    assert folds(prompts) <= 10


def test_pain_02_stale_usage() -> None:
    """Usage that the provider reported for a prompt before the fold does not make the next prompts fold."""
    session = begun(4_000)
    prompts = works(session, 4)
    while prompts[-1].fold is None:
        prompts += works(session, 1, start=len(prompts))
    before = prompts[-1].fold.before
    for _ in range(4):
        session.append(Usage("gpt-5", before + 30, 10, estimated=before + 24))
    session.append(assistant("Read."))
    assert asked(session).fold is None
    session.append(user("More."))
    assert asked(session).fold is None


def test_pain_09_too_big_to_compact() -> None:
    """Thirty times more than fits is folded at once, also when the summariser finds its part too long: code needs no model."""

    def overwhelmed(_question: Question) -> str:
        raise RuntimeError("prompt is too long: 250000 tokens > 200000 maximum")

    heard = Watcher()
    session = begun(4_000, summariser=overwhelmed, on_event=heard)
    filled(session, 44, lines=100)
    assert session.view.size.tokens > 30 * 4_000
    try:
        prompt = asked(session)
    except RuntimeError as error:
        raise AssertionError(f"the summariser's failure became the session's: {error}") from None
    assert prompt.tokens <= 4_000
    assert prompt.fold
    assert [event.why for event in heard.of(SummaryRefused)] == ["too_long"]
    assert [event.author for event in heard.of(CompactionEnded)] == ["code"]


def test_pain_10_gate_deadlock() -> None:
    """What a summariser is asked stays small however much is folded, so that no larger model or paid tier is needed for it;
    without a summariser nobody is asked at all."""
    questions: list[Question] = []

    def writes(question: Question) -> str:
        questions.append(question)
        return PROSE

    session = begun(120_000, summariser=writes)
    filled(session, 44, lines=100)
    covered = asked(session).fold
    assert covered
    assert covered.before - covered.after > 40_000
    count = session.view.projection.measure.count
    sizes = [sum(count(message["content"]) for message in messages_of(question)) for question in questions]
    assert len(sizes) == 1
    assert max(sizes) <= 32_000


def test_pain_11_giant_result() -> None:
    """A result of a megabyte on one line is kept beside the log, the prompt fits, and the whole is one recall away."""
    giant, store = "0123456789abcdef" * 65_536, MemoryStore()
    session = begun(4_000, store=store)
    works(session, 1, lines=8)
    session.append(assistant("", call("c1", "bash", command="cat data.bin")))
    entry = session.append(result("c1", giant))
    prompt = asked(session)
    assert max(len(row.payload) for row in store.rows("pain")) <= ARTIFACT_BYTES
    assert oracles.recount(prompt) <= prompt.tokens <= 4_000
    assert session.recall(entry.id) == giant


def test_pain_11_giant_result_beside_history() -> None:
    """A giant result does not take the place of a small one before it."""
    session = begun(4_000)
    works(session, 1, lines=8)
    session.append(assistant("", call("c1", "bash", command="cat data.bin")))
    session.append(result("c1", "0123456789abcdef" * 65_536))
    assert text_of(0, 8) in said(asked(session))


def test_pain_16_wrong_window() -> None:
    """A model that nobody knows has a window all the same, and usage that cannot be right does not move the limit."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        unknown = setup_for(Model("nobody/knows-this-one"), Policy())
    assert [one.category for one in told] == [UnknownModelWarning]
    assert 8_000 <= unknown.budget.sendable <= 200_000
    session = begun(4_000)
    limit = session.compaction.pressure().limit
    for counted in (20_000, 17_000, 0, 30, 24_000, 18_000):
        session.append(Usage("gpt-5", counted, 10, estimated=4_000))
    assert session.compaction.pressure().limit == limit
    reply = {
        "role": "assistant",
        "model": "claude-sonnet-4-5",
        "content": [{"type": "text", "text": "Done."}],
        "usage": {
            "input_tokens": 100,
            "output_tokens": 5,
            "cache_read_input_tokens": 9_000,
            "cache_creation_input_tokens": 900,
        },
    }
    _, usage = setup_for(Model("claude-sonnet-4-5"), Policy()).dialect.reader.reply(reply)
    assert usage
    assert usage.input_tokens == 10_000, "what was read from the cache counts once"


def test_pain_16_input_limit() -> None:
    """Without a limit of the user's, no prompt is larger than what the model takes as input."""
    optics = setup_for(Model("gpt-5"), Policy())
    assert optics.budget.sendable <= optics.facts.max_input


def test_pain_16_double_counting() -> None:
    """Usage that counts the same prompt four times over does not make sessions fold at a quarter of their limit."""
    session = begun(8_000)
    limit = session.compaction.pressure().limit
    for _ in range(4):
        session.append(Usage("gpt-5", 16_000, 10, estimated=4_000))
    assert session.compaction.pressure().limit > limit / 2


def test_pain_17_no_usage() -> None:
    """With a server that never reports usage, prompts are folded in time by our own count."""
    session = begun(5_000)
    prompts = works(session, 16)
    assert session.view.facts.usage == ()
    assert all(oracles.recount(prompt) <= prompt.tokens <= 5_000 for prompt in prompts)
    assert folds(prompts) >= 2


RATE_LIMITS = (
    "Rate limit reached for gpt-5 in organization org-1 on tokens per min (TPM): Limit 30000, Used 29000, Requested 9000. "
    "The input exceeds the limit of 30000.",
    "Request too large for model `llama` on tokens per minute (TPM): Limit 6000, Requested 9500, please reduce the length of "
    "the messages",
    "ThrottlingException: Too many tokens in request, please wait before trying again.",
    "Overloaded: the prompt is too long for the current capacity",
    "You exceeded your current quota; maximum context length is 1000000 with a paid plan",
)
OVERFLOWS = (
    ("This model's maximum context length is 8192 tokens. However, your messages resulted in 9001 tokens.", 8_192),
    ("prompt is too long: 210000 tokens > 200000 maximum", 200_000),
    ("The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).", 1_048_576),
    ("the request exceeds the available context size (4096 tokens), try increasing it", 4_096),
    ("Error code: 400 - context_length_exceeded", None),
)


class ProviderError(Exception):
    """An error as SDKs raise them."""

    def __init__(self, said: str, status_code: int | None = None, body: Any = None) -> None:
        self.status_code, self.body = status_code, body
        super().__init__(said)


def test_pain_18_rate_limit_read_as_overflow() -> None:
    """A rate limit that speaks of tokens is raised again and folds nothing; an overflow is understood, its limit learned, and
    after so many of them in a row there is a clear end."""
    for text in RATE_LIMITS:
        assert refusal_in(ProviderError(text)) is None, text
    assert refusal_in(ProviderError("prompt is too long", 429)) is None
    for text, limit in OVERFLOWS:
        refusal = refusal_in(ProviderError(text, 400))
        assert refusal
        assert refusal.limit == limit
    session = begun(60_000)
    works(session, 30)
    raised = _recovered(session, ProviderError(RATE_LIMITS[0], None))
    assert isinstance(raised, ProviderError)
    assert session.view.facts.folds == 0
    assert session.compaction.recover(ProviderError("maximum context length is 20000 tokens", 400)).tokens <= 20_000
    ends = [_recovered(session, ProviderError("context_length_exceeded", 400)) for _ in range(3)]
    assert isinstance(ends[-1], ContextOverflow)


def _recovered(session: Any, error: Exception) -> Exception | None:
    try:
        session.compaction.recover(error)
    except (ProviderError, ContextOverflow, OverBudget) as raised:
        return raised
    return None


def test_pain_18_a_summary_shrinks_with_the_limit() -> None:
    """When the provider turns out to take much less, the summary that stands is written shorter."""
    session = begun(20_000)
    works(session, 8, lines=14)
    for limit in (3_000, 1_000, 700):
        _recovered(session, ProviderError(f"maximum context length is {limit} tokens", 400))
    assert refused(session) is None


def test_pain_20_sub_agents_have_no_context_management() -> None:
    """A child is a session like its parent, under the window of its own model: it is folded when its parent is far from that,
    and neither sees a word of the other."""
    store = MemoryStore()
    parent = begun(store=store, name="parent", model="gpt-5")
    child = begun(None, "Look for the slow query.", store=store, name="child", model="gpt-4")
    prompts = works(child, 16)
    assert all(oracles.recount(prompt) <= 8_192 for prompt in prompts)
    assert folds(prompts) >= 1
    works(parent, 2, start=100)
    parents = asked(parent)
    assert parent.view.facts.folds == 0
    assert "slow query" not in said(parents)
    assert "lib/part15.py" not in said(parents)
    assert "nightly import" not in said(prompts[-1])


def test_pain_22_sub_agent_output_floods_parent() -> None:
    """What a child returns is shown by a part of it if it is huge: the parent's own history stays as it was, and the whole is
    one recall away."""
    session = begun(12_000)
    history = works(session, 6, lines=14)
    assert folds(history) == 0
    report = "\n".join(f"finding {number}: table_{number} is scanned {number} times" for number in range(3_000))
    session.append(assistant("", call("t1", "task", description="Find slow queries")))
    entry = session.append(result("t1", report))
    prompt = asked(session)
    assert prompt.tokens <= 12_000
    assert all(text_of(number, 14) in said(prompt) for number in range(6)), "the child's words took the parent's place"
    assert "finding 0:" in said(prompt)
    assert session.recall(entry.id) == report


def test_pain_images_are_dropped_by_count() -> None:
    """More images than a provider takes are never sent, however few tokens they are; the newest are."""
    pixel = bytes.fromhex(
        "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000c49444154789c63606060000000040001f61738550000"
        "000049454e44ae426082"
    )
    session = begun(200_000)
    for number in range(130):
        session.append(assistant("", call(f"s{number}", "screenshot")))
        session.append(result(f"s{number}", f"screen {number}", Image("image/png", pixel, width=1, height=1)))
    prompt = asked(session)
    assert 1 <= msgspec.json.encode(prompt.request).count(b'"image_url"') // 2 <= 100
    assert session.view.size.images <= 100
