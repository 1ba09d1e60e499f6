"""When a provider says that the prompt is too long: what its words mean, what is learned, and the smaller prompt."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foveal.context.injection import NextCall
from foveal.record.overflow import GUESS, refusal_in, refused_overflow, silent_overflow
from foveal.session.options import Clock, Host
from foveal.session.policy import BudgetTable, Compact, Policy
from foveal.session.session import Session
from foveal.stores.memory import MemoryStore
from foveal.testing import oracles
from foveal.testing.builders import MODELS, counted_ids, open_session
from foveal.values.entry import ToolCall, Usage, assistant, result, system, user
from foveal.values.errors import BadInput, ContextOverflow, OverBudget
from foveal.values.events import Event, LimitLearned

SAID: dict[str, tuple[str, int | None]] = {
    "OpenAI, chat": (
        "This model's maximum context length is 128000 tokens. However, your messages resulted in 131072 tokens. "
        "Please reduce the length of the messages.",
        128_000,
    ),
    "OpenAI, chat with a reply": (
        "This model's maximum context length is 8192 tokens. However, you requested 8721 tokens (7721 in the messages, "
        "1000 in the completion). Please reduce the length of the messages or completion.",
        8_192,
    ),
    "OpenAI, responses": (
        "Your input exceeds the context window of this model. Please adjust your input and try again.",
        None,
    ),
    "OpenAI, code alone": ("Error code: 400 - {'error': {'code': 'context_length_exceeded'}}", None),
    "Anthropic, input": ("prompt is too long: 213462 tokens > 200000 maximum", 200_000),
    "Anthropic, input and reply": (
        "input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000, decrease input length or "
        "`max_tokens` and try again",
        200_000,
    ),
    "Anthropic, bytes": ("413 request_too_large: Request exceeds the maximum size", None),
    "Gemini": (
        "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).",
        1_048_575,
    ),
    "Gemini, without its count": (
        "The input token count exceeds the maximum number of tokens allowed (1048576).",
        1_048_576,
    ),
    "Vertex": (
        "Unable to submit request because the input token count is 32771 but model only supports up to 32767. Reduce the "
        "input token count and try again.",
        32_767,
    ),
    "xAI": (
        "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
        131_072,
    ),
    "Groq": ("Please reduce the length of the messages or completion.", None),
    "OpenRouter": (
        "This endpoint's maximum context length is 163840 tokens. However, you requested about 244213 tokens (236021 of "
        'text input, 8192 in the output). Please reduce the length of either one, or use the "middle-out" transform.',
        163_840,
    ),
    "Mistral": (
        "Prompt contains 65673 tokens and 0 draft tokens, too large for model with 32768 maximum context length",
        32_768,
    ),
    "vLLM": (
        "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens (4000 in the messages, "
        "1000 in the completion). Please reduce the length of the messages or completion.",
        4_096,
    ),
    "vLLM, newer": (
        "The decoder prompt (length 40265) is longer than the maximum model length of 32768. Make sure that "
        "`max_model_len` is no smaller than the number of text tokens.",
        32_768,
    ),
    "llama.cpp": ("the request exceeds the available context size (8192 tokens), try increasing it", 8_192),
    "llama.cpp, older": ("the request exceeds the available context size. try increasing the context size", None),
    "LM Studio": (
        "Trying to keep the first 5612 tokens when context the overflows. However, the model is loaded with context "
        "length of only 4096 tokens, which is not enough.",
        4_096,
    ),
    "LM Studio, older": (
        "The number of tokens to keep from the initial prompt is greater than the context length.",
        None,
    ),
    "Ollama": ("prompt too long; exceeded max context length by 312 tokens", None),
    "DeepSeek": (
        "This model's maximum context length is 131072 tokens. However, you requested 141056 tokens (132864 in the "
        "messages, 8192 in the completion). Please reduce the length of the messages or completion.",
        131_072,
    ),
    "Kimi": (
        "Invalid request: Your request exceeded model token limit: 262144 (requested: 291351)",
        262_144,
    ),
    "Copilot": ("prompt token count of 135367 exceeds the limit of 128000", 128_000),
    "Bedrock": ("ValidationException: Input is too long for requested model.", None),
    "Bedrock, counted": (
        "The model returned the following errors: prompt is too long: 201043 tokens > 200000 maximum",
        200_000,
    ),
    "MiniMax": ("invalid params, context window exceeds limit (2013)", None),
}

NO_OVERFLOW = (
    "Rate limit reached for gpt-5 in organization org-x on tokens per min (TPM): Limit 30000, Used 29000, Requested 5000.",
    "This request would exceed your organization's rate limit of 40,000 input tokens per minute.",
    "Request too large for model `llama-3.3-70b` on tokens per minute (TPM): Limit 6000, Requested 9042. Please reduce the "
    "length of the messages.",
    "ThrottlingException: Too many tokens, please wait before trying again.",
    "Resource has been exhausted (e.g. check quota).",
    "Overloaded",
    "Your credit balance is too low to access the API.",
    "Invalid 'messages[3].content': string expected",
    "max_tokens: 999999 > 64000, which is the maximum allowed number of output tokens",
    # Refusals of ten providers that name numbers and are no overflow.
    "messages.0.content: number of images (25) exceeds the limit of 20",
    "Too many images in the request: 25 exceeds the limit of 16",
    "Invalid 'messages': array too long. Expected an array with maximum length 2048, but got an array with length 2050 instead.",
    "Invalid 'input[3].name': string too long. Expected a string with maximum length 64, but got a string with length 80.",
    "max_tokens is too large: 40000. This model supports at most 16384 completion tokens, whereas you provided 40000.",
    "Invalid 'tools': array too long. Expected an array with maximum length 128, but got an array with length 130 instead.",
    "The number of function declarations (600) exceeds the limit of 512.",
    "image dimensions exceed max allowed size: 8000 pixels",
    "Request payload size exceeds the limit: 20971520 characters.",
    "too many stop sequences: 9 exceeds the limit of 4",
    "`max_completion_tokens` must be at most 8192, but got 16000",
    "The document has 120 pages, which exceeds the limit of 100",
    "Connection reset by peer",
    "",
)


class Answer(Exception):
    """As SDKs raise it."""

    def __init__(self, message: str, status_code: int | None = None, body: object = None) -> None:
        super().__init__(message)
        self.status_code, self.body = status_code, body


@pytest.mark.parametrize("provider", SAID)
def test_each_providers_words_are_understood(provider: str) -> None:
    """It is an overflow, and where a limit is named it is that number, not the one beside it."""
    said, limit = SAID[provider]
    refusal = refusal_in(Answer(said, 400))
    assert refusal is not None
    assert refusal.limit == limit


@pytest.mark.parametrize("said", NO_OVERFLOW, ids=lambda said: said[:30] or "nothing")
def test_other_errors_are_no_overflow(said: str) -> None:
    """A rate limit speaks of tokens too; who folds for it folds for nothing."""
    assert refusal_in(Answer(said, 400)) is None
    assert refusal_in(Answer(said)) is None


@pytest.mark.parametrize("provider", SAID)
def test_a_429_is_a_rate_limit_whatever_it_says(provider: str) -> None:
    """The status knows better than the words."""
    assert refusal_in(Answer(SAID[provider][0], 429)) is None


def test_a_413_without_words_is_an_overflow() -> None:
    """Some gateways say no more than that."""
    refusal = refusal_in(Answer("", 413))
    assert refusal is not None
    assert refusal.limit is None


def test_the_body_is_read_beside_the_message() -> None:
    """SDKs put the provider's word there and a word of their own in front."""
    body = {"error": {"message": SAID["xAI"][0]}}
    refusal = refusal_in(Answer("Bad request", 400, body))
    assert refusal is not None
    assert refusal.limit == 131_072


@pytest.mark.parametrize("error", [SAID["Kimi"][0], {"error": {"message": SAID["Kimi"][0]}}], ids=["text", "JSON"])
def test_an_error_need_not_be_an_exception(error: object) -> None:
    """Streams and proxies hand over what the provider sent."""
    refusal = refusal_in(error)
    assert refusal is not None
    assert refusal.limit == 262_144


@given(st.text(max_size=300))
def test_any_text_can_be_asked(text: str) -> None:
    """Whatever a server says, reading it does not fail and names no limit below one."""
    refusal = refusal_in(text)
    assert refusal is None or refusal.limit is None or refusal.limit > 0


def test_a_named_limit_is_learned() -> None:
    """What the provider takes is what it said, in the proportion of its own count to ours."""
    refusal = refusal_in(SAID["Anthropic, input"][0])
    assert refusal
    assert (refusal.limit, refusal.counted) == (200_000, 213_462)
    assert refused_overflow("m", refusal, 213_462).limit == 200_000
    assert refused_overflow("m", refusal, 106_731).limit == 100_000
    assert refused_overflow("m", refusal, 106_731, factor=2.0).limit == 200_000


def test_without_a_limit_three_quarters_are_tried() -> None:
    """A guess below what was sent, and the reason says so."""
    refusal = refusal_in(SAID["Bedrock"][0])
    assert refusal
    overflow = refused_overflow("m", refusal, 8_000)
    assert overflow.limit == int(8_000 * GUESS)
    assert "no limit was named" in overflow.because


def test_a_limit_above_our_own_count_leads_below_it() -> None:
    """They count more than we do: to go down to their number by our count would be refused again."""
    refusal = refusal_in(SAID["OpenAI, chat"][0])
    assert refusal
    assert refused_overflow("m", refusal, 100_000).limit == 100_000 * 128_000 // 131_072


def test_a_guess_is_in_the_providers_tokens() -> None:
    """Three quarters of the tokens that the provider counted: the factor is not applied a second time."""
    refusal = refusal_in(SAID["Bedrock"][0])
    assert refusal
    assert refused_overflow("m", refusal, 50_000, factor=2.0).limit == 75_000


@pytest.mark.parametrize("said", ["maximum context length is 20 tokens", "context size of 512"])
def test_a_limit_that_no_model_has_is_not_believed(said: str) -> None:
    """A number below a thousand is of something else; the prompt is made smaller step by step."""
    refusal = refusal_in(said)
    assert refusal
    assert refusal.limit is None


def test_usage_beyond_the_window_is_an_overflow() -> None:
    """The provider counted more than it is documented to take."""
    overflow = silent_overflow(Usage("m", 210_000, 5), 200_000)
    assert overflow
    assert (overflow.limit, overflow.is_cut) == (200_000, False)


@pytest.mark.parametrize(("counted", "before"), [(4_096, 4_096), (4_090, 4_096), (8_199, 8_192)])
def test_a_cut_is_believed_when_two_prompts_have_the_same_ceiling(counted: int, before: int) -> None:
    """The second prompt was longer, and not a token more was counted."""
    overflow = silent_overflow(Usage("m", counted, 5, estimated=20_000), 200_000, [(15_000, before)])
    assert overflow
    assert (overflow.model, overflow.limit, overflow.is_cut) == ("m", counted, True)


@pytest.mark.parametrize(
    ("usage", "before"),
    [
        (Usage("m", 150_000, 5), []),
        (Usage("m", 4_096, 5, estimated=9_000), []),
        (Usage("m", 4_096, 5, estimated=9_000), [(9_000, 4_096)]),
        (Usage("m", 4_096, 5, estimated=9_000), [(8_000, 3_072)]),
        (Usage("m", 4_096, 5, estimated=4_800), [(4_300, 4_096)]),
        (Usage("m", 4_096, 5, cache_read_tokens=5_000, estimated=9_000), [(8_000, 4_096)]),
        (Usage("m", 4_096, 5), [(8_000, 4_096)]),
        (Usage("m", 512, 5, estimated=9_000), [(8_000, 512)]),
    ],
    ids=["within", "once", "same prompt", "another number", "within our error", "cached apart", "no estimate", "tiny"],
)
def test_usage_that_has_another_reason_is_no_overflow(usage: Usage, before: list[tuple[int, int]]) -> None:
    """A proxy that counts otherwise must not shrink every later prompt."""
    assert silent_overflow(usage, 200_000, before) is None


def reply(counted: int) -> dict[str, object]:
    """A reply of the chat format whose endpoint counted this many tokens."""
    message = {"role": "assistant", "content": "ok"}
    return {"choices": [{"message": message}], "usage": {"prompt_tokens": counted, "completion_tokens": 2}}


@pytest.mark.parametrize(
    "report",
    [
        lambda sent, n: sent - (sent // 1_024) * 1_024 + 1_024 * (n % 3),
        lambda sent, n: sent * 2 // 5,
        lambda sent, n: 1_024,
    ],
    ids=["uncached tokens", "bytes", "small and constant"],
)
def test_odd_usage_does_not_shrink_a_session(report: Callable[[int, int], int]) -> None:
    """After a hundred calls to an endpoint that reports too little, prompts are as large as the policy allows."""
    session = open_session(policy=Policy(max_context_tokens=16_000))
    session.append(user("Read it all."))
    largest = 0
    for n in range(100):
        sent = session.prompt().tokens
        largest = max(largest, sent) if n > 50 else 0
        session.append(reply(report(sent, n)))
        session.append(user(f"Go on with part {n}: " + "word " * 200))
    assert largest > 9_000


def filled(store: MemoryStore | None = None, *, limit: int = 20_000, steps: int = 40, **compact: Any) -> Session:
    """A session of some nine thousand tokens, well below its limit."""
    policy = Policy(budget=BudgetTable(limit=limit, reserve=0), compact=Compact(**compact))
    session = open_session(store, policy=policy)
    session.append(user("Read it all."))
    for n in range(steps):
        session.append(assistant("", ToolCall(f"c{n}", "read", f'{{"path": "p{n}.txt"}}')))
        lines = (f"row {n} {i}: total {(n * 37 + i * 11) % 1009} of {i * n % 53}" for i in range(16))
        session.append(result(f"c{n}", "\n".join(lines)))
    return session


def test_a_refused_prompt_is_made_smaller() -> None:
    """Down to what the provider named, valid, and for all prompts after it."""
    session = filled()
    assert session.prompt().tokens > 6_000
    prompt = session.compaction.recover(Answer("prompt is too long: 9000 tokens > 6000 maximum", 400))
    assert prompt.fold
    assert prompt.tokens <= 6_000
    assert oracles.problems(prompt) == []
    session.extend([assistant("ok"), user("more " * 2_000), assistant("yes"), user("and more")])
    assert session.prompt().tokens <= 6_000


def test_without_a_number_it_goes_down_step_by_step() -> None:
    """Three quarters of what was sent, and of that again."""
    session = filled()
    sizes = [session.prompt().tokens]
    for _ in range(3):
        sizes.append(session.compaction.recover(SAID["Bedrock"][0]).tokens)
    assert all(after <= before * GUESS for before, after in pairwise(sizes))


def test_what_is_learned_belongs_to_the_model() -> None:
    """Another model is not held to it."""
    store = MemoryStore()
    session = filled(store)
    session.prompt()
    session.compaction.recover(SAID["Mistral"][0].replace("32768", "5000"))
    session.close()
    other = open_session(store, model="gpt-4o", limit=20_000, new_id=counted_ids("other"))
    assert other.compaction.pressure().limit > 19_000


def test_what_is_learned_survives_reopening() -> None:
    """It is in the log: whoever opens the session next knows it."""
    store = MemoryStore()
    session = filled(store)
    session.prompt()
    session.compaction.recover("prompt is too long: 9000 tokens > 6000 maximum")
    limit = session.compaction.pressure().limit
    session.close()
    again = open_session(store, policy=session._journal.setup.policy, new_id=counted_ids("again"))
    assert again.compaction.pressure().limit == limit <= 6_000
    assert again.prompt().tokens <= 6_000


def test_other_errors_are_raised_again_untouched() -> None:
    """The host's own handling of rate limits sees the very exception; nothing is folded or written."""
    session = filled()
    session.prompt()
    error, seq = Answer(NO_OVERFLOW[0], 429), session.view.facts.seq
    with pytest.raises(Answer) as raised:
        session.compaction.recover(error)
    assert raised.value is error
    assert session.view.facts.seq == seq
    with pytest.raises(BadInput, match="tells of no overflow"):
        session.compaction.recover("Overloaded")


@pytest.mark.parametrize("recoveries", [0, 1, 3])
def test_after_so_many_refusals_in_a_row_it_is_an_error(recoveries: int) -> None:
    """With the model, the attempts, the size and the provider's words."""
    session = filled(recoveries=recoveries)
    session.prompt()
    for _ in range(recoveries):
        session.compaction.recover(SAID["Bedrock"][0])
    tokens = session.compaction.pressure().tokens
    with pytest.raises(ContextOverflow) as raised:
        session.compaction.recover(SAID["Bedrock"][0])
    assert (raised.value.attempts, raised.value.model) == (recoveries + 1, MODELS["openai_chat"])
    assert abs(raised.value.tokens - tokens) < 100
    assert f"refused {recoveries + 1} prompts in a row" in str(raised.value)
    assert "Input is too long" in str(raised.value)


def test_a_reply_ends_the_count() -> None:
    """Refusals in a row are those since the last answer."""
    session = filled(recoveries=1)
    session.prompt()
    for _ in range(3):
        session.compaction.recover(SAID["Bedrock"][0])
        session.append(assistant("That went through."))
        session.append(user("Go on."))
        session.prompt()
    assert session.view.facts.overflows == 0


def test_recovery_asks_no_model() -> None:
    """It must not depend on another call that may fail for the same reason."""
    asked = []
    session = Session(
        MemoryStore(),
        "test",
        model="gpt-5",
        policy=Policy(budget=BudgetTable(limit=20000, reserve=0)),
        host=Host(summariser=lambda question: asked.append(question) or ""),
        clock=Clock(new_id=counted_ids()),
    )
    session.append(user("Go."))
    for n in range(40):
        session.append(assistant("", ToolCall(f"c{n}", "read", "{}")))
        session.append(result(f"c{n}", "\n".join(f"row {n} {i}: total {(n * 37 + i * 11) % 1009}" for i in range(16))))
    session.prompt()
    asked.clear()
    assert session.compaction.recover("prompt is too long: 9000 tokens > 4000 maximum").fold
    assert asked == []


def test_a_limit_below_what_must_stay_is_told_with_its_parts() -> None:
    """Folding further cannot help: the error names what is mandatory."""
    session = open_session(limit=20_000)
    session.extend([system("word " * 3_000), user("Go.")])
    session.prompt()
    with pytest.raises(OverBudget, match="system prompt 3,0"):
        session.compaction.recover("prompt is too long: 3010 tokens > 1000 maximum")


def test_a_cut_that_only_usage_tells_is_learned_on_append() -> None:
    """A local server that drops the beginning without a word: after two such replies the next prompt fits it."""
    heard: list[Event] = []
    session = grown_without_a_policy(heard)
    session.append(reply(4_096))
    session.append(user("Go on. " * 800))
    assert session.prompt().tokens > 6_000
    session.append(reply(4_096))
    session.append(user("Go on."))
    prompt = session.prompt()
    assert prompt.tokens <= 4_096
    assert oracles.problems(prompt) == []
    assert [(event.limit, event.is_applied) for event in heard if isinstance(event, LimitLearned)] == [(4_096, True)]


def test_a_cut_does_not_lower_a_limit_that_the_policy_names() -> None:
    """The operator is told, and decides."""
    heard: list[Event] = []
    session = grown_without_a_policy(heard, limit=20_000)
    session.append(reply(4_096))
    session.append(user("Go on. " * 800))
    session.prompt()
    session.append(reply(4_096))
    session.append(user("Go on."))
    assert session.prompt().tokens > 6_000
    assert [(event.limit, event.is_applied) for event in heard if isinstance(event, LimitLearned)] == [(4_096, False)]


def grown_without_a_policy(heard: list[Event], limit: int | None = None) -> Session:
    """A session of some nine thousand tokens whose prompt was asked for."""
    policy = Policy(budget=BudgetTable(limit=limit))
    host, clock = Host(on_event=heard.append), Clock(new_id=counted_ids())
    session = Session(MemoryStore(), "test", model="gpt-5", policy=policy, host=host, clock=clock)
    session.append(user("Read it all."))
    for n in range(40):
        session.append(assistant("", ToolCall(f"c{n}", "read", f'{{"path": "p{n}.txt"}}')))
        lines = (f"row {n} {i}: total {(n * 37 + i * 11) % 1009} of {i * n % 53}" for i in range(16))
        session.append(result(f"c{n}", "\n".join(lines)))
    assert session.prompt().tokens > 6_000
    return session


def test_usage_that_contradicts_a_learned_limit_ends_it() -> None:
    """A prompt of more tokens was taken: the limit was not one."""
    session = filled()
    session.prompt()
    session.compaction.recover("prompt is too long: 9000 tokens > 6000 maximum")
    assert session.compaction.pressure().limit <= 6_000
    (note,) = session.why().notes
    assert "6,000 tokens may be sent instead of 20,000: refused: prompt is too long" in note
    session.append(reply(7_500))
    assert not any("may be sent instead" in note for note in session.why().notes)
    assert session.compaction.pressure().limit > 19_000


def test_a_learned_limit_can_be_forgotten() -> None:
    """It is a mark in the log: forgotten for whoever opens the session next as well."""
    store = MemoryStore()
    session = filled(store)
    session.prompt()
    session.compaction.recover("prompt is too long: 9000 tokens > 6000 maximum")
    session.compaction.forget_limit()
    assert session.compaction.pressure().limit > 19_000
    session.close()
    again = open_session(store, policy=session._journal.setup.policy, new_id=counted_ids("again"))
    assert again.compaction.pressure().limit > 19_000


def test_an_error_names_the_source_of_a_learned_limit() -> None:
    """Nobody wrote this number: the error says where it comes from and how to be rid of it."""
    session = open_session(limit=20_000)
    session.extend([system("word " * 3_000), user("Go.")])
    session.prompt()
    with pytest.raises(OverBudget, match=r"The limit was learned \(refused: .*forget_limit\(\)"):
        session.compaction.recover("prompt is too long: 3010 tokens > 1500 maximum")


def test_recovering_keeps_the_facts_of_the_call() -> None:
    """Reminders that depend on the next call are in the smaller prompt as well."""
    session = open_session(policy=Policy(budget=BudgetTable(limit=20_000, reserve=0), remind=True))
    session.append(user("Read it all."))
    for n in range(20):
        session.extend([assistant("", ToolCall(f"c{n}", "read", f'{{"n": {n}}}')), result(f"c{n}", f"row {n}\n" * 80)])
    session.prompt(next_call=NextCall(steps_left=2))
    prompt = session.compaction.recover(SAID["Bedrock"][0], next_call=NextCall(steps_left=2))
    assert "Steps left: 2." in "".join(oracles.strings(prompt.request))


@pytest.mark.parametrize("dialect", sorted(MODELS))
def test_a_recovered_prompt_is_valid_in_every_format(dialect: str) -> None:
    """Folding further is folding: pairs stay together."""
    session = open_session(dialect=dialect, limit=20_000)
    session.append(user("Read it all."))
    for n in range(20):
        session.append(assistant("", ToolCall(f"c{n}", "read", "{}"), model=MODELS[dialect]))
        session.append(result(f"c{n}", f"row {n} is here\n" * 60))
    session.prompt()
    prompt = session.compaction.recover("prompt is too long: 9000 tokens > 3000 maximum")
    assert oracles.problems(prompt) == []
    assert prompt.tokens <= 3_000
