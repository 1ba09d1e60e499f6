"""The model of the cache, reckoned by hand: marks, minimums and steps; and usage in each SDK's own fields."""

import pytest

from foveal.testing.provider import CallUsage, InputBill, Read, ScriptedProvider, Step, Turn
from foveal.testing.provider.cache import MEDIA_TOKENS, PrefixCache, add_up, prompt_blocks, text_tokens

from .small_agents import AGENTS, ASKED, CLIENTS

MARK = {"cache_control": {"type": "ephemeral"}}


def words(number: int, word: str = "a") -> str:
    """A text of this many tokens for a counter that counts words."""
    return " ".join([word] * number)


def count(text: str) -> int:
    """Count the words in texts that `words` wrote; all other strings (roles, types) count nothing."""
    return len(text.split()) if text.split()[1:] else 0


def usage(cache: PrefixCache, dialect: str, model: str, body: dict) -> tuple[int, int, int]:
    """Tokens, cached and written of a request."""
    blocks = prompt_blocks(dialect, body)
    sizes = cache.sizes(dialect, model, blocks)
    return cache.total(sizes), *cache.take(dialect, model, blocks, sizes)


def claude(*messages: tuple[int, bool], system: int = 0, is_marked: bool = False) -> dict:
    """A request with a system prompt and messages of these sizes, marked or not."""
    told = [{"type": "text", "text": words(system), **(MARK if is_marked else {})}] if system else []
    turns = [
        {"role": "user", "content": [{"type": "text", "text": words(size, f"m{i}"), **(MARK if marked else {})}]}
        for i, (size, marked) in enumerate(messages)
    ]
    return {"system": told, "messages": turns}


SONNET = "claude-sonnet-4-5"  # caches from 1 024 tokens


def test_marks_write_first_and_read_afterwards():
    """A first call writes up to its last mark; the next reads that and writes what is new; the rest has the full price."""
    cache = PrefixCache(count)
    first = claude((500, True), (100, False), system=2_000, is_marked=True)
    assert usage(cache, "anthropic", SONNET, first) == (2_600, 0, 2_500)
    second = claude((500, False), (100, False), (900, True), system=2_000, is_marked=True)
    assert usage(cache, "anthropic", SONNET, second) == (3_500, 2_500, 1_000)
    assert usage(cache, "anthropic", SONNET, second) == (3_500, 3_500, 0)


def test_without_marks_nothing_is_cached():
    """Anthropic caches by mark alone."""
    cache = PrefixCache(count)
    for _ in range(2):
        assert usage(cache, "anthropic", SONNET, claude((500, False), system=3_000)) == (3_500, 0, 0)


def test_a_prefix_below_the_minimum_is_not_written():
    """The smallest prefix is that of the model: 1 024 for one, 4 096 for another."""
    cache = PrefixCache(count)
    body = claude((100, True), system=1_500, is_marked=True)
    assert usage(cache, "anthropic", "claude-opus-4-5", body) == (1_600, 0, 0)
    assert usage(cache, "anthropic", SONNET, body) == (1_600, 0, 1_600)
    assert usage(cache, "anthropic", SONNET, claude((10, True), system=1_000)) == (1_010, 0, 0)


def test_a_changed_block_ends_the_common_prefix():
    """Behind a change only the marks before it are read; one tool more and nothing is."""
    cache = PrefixCache(count)
    body = claude((500, True), system=2_000, is_marked=True)
    usage(cache, "anthropic", SONNET, body)
    changed = claude((501, True), system=2_000, is_marked=True)
    assert usage(cache, "anthropic", SONNET, changed) == (2_501, 2_000, 501)
    more = {**body, "tools": [{"name": "x", "description": words(50)}]}
    assert usage(cache, "anthropic", SONNET, more) == (2_550, 0, 2_550)


def test_an_older_mark_is_found_twenty_blocks_back():
    """The end of the call before is read if it is at most twenty blocks before a mark."""
    for new, read in ((20, 2_002), (21, 0)):
        cache = PrefixCache(count)
        usage(cache, "anthropic", SONNET, claude((2_002, True)))
        body = claude((2_002, False), *[(2, False)] * (new - 1), (2, True))
        assert usage(cache, "anthropic", SONNET, body)[1] == read


def test_marks_and_the_form_of_a_text_do_not_change_the_prefix():
    """A mark that moves away, and a text in place of a list with one text, are the same block."""
    cache = PrefixCache(count)
    usage(cache, "anthropic", SONNET, claude((2_000, True)))
    body = {"messages": [{"role": "user", "content": words(2_000, "m0")}, *claude((2, True))["messages"]]}
    assert usage(cache, "anthropic", SONNET, body) == (2_002, 2_000, 2)


def chat(*sizes: int) -> dict:
    """A chat with messages of these sizes."""
    return {"messages": [{"role": "user", "content": words(size, f"m{i}")} for i, size in enumerate(sizes)]}


def test_openai_caches_by_itself_in_steps():
    """From 1 024 tokens on, in steps of 128, the common prefix and never all of the prompt."""
    cache = PrefixCache(count)
    assert usage(cache, "openai_chat", "gpt-5", chat(1_000)) == (1_000, 0, 0)
    assert usage(cache, "openai_chat", "gpt-5", chat(1_000, 200)) == (1_200, 0, 0)
    assert usage(cache, "openai_chat", "gpt-5", chat(1_000, 200, 300)) == (1_500, 1_152, 0)
    assert usage(cache, "openai_chat", "gpt-5", chat(1_000, 200, 300)) == (1_500, 1_408, 0)
    assert usage(cache, "openai_chat", "gpt-5", chat(1_280)) == (1_280, 0, 0)
    assert usage(cache, "openai_chat", "gpt-5", chat(1_280)) == (1_280, 1_152, 0)


def test_a_message_that_grew_is_shared_by_its_beginning():
    """Automatic caches compare tokens, not messages."""
    cache = PrefixCache(count)
    usage(cache, "openai_responses", "gpt-5", {"input": words(1_300)})
    assert usage(cache, "openai_responses", "gpt-5", {"input": words(2_600)}) == (2_600, 1_280, 0)


def test_models_and_providers_share_nothing():
    """Another model reads nothing that this one wrote."""
    cache = PrefixCache(count)
    usage(cache, "openai_chat", "gpt-5", chat(2_000))
    assert usage(cache, "openai_chat", "gpt-4.1", chat(2_000)) == (2_000, 0, 0)
    assert usage(cache, "openai_chat", "gpt-5", chat(2_000))[1] > 0


def test_gemini_counts_from_its_own_minimum():
    """System prompt first, then tools and contents; hits are exact from the model's minimum on."""
    body = {
        "systemInstruction": {"parts": [{"text": words(5_000)}]},
        "tools": [{"functionDeclarations": [{"name": "x", "description": words(100)}]}],
        "contents": [{"role": "user", "parts": [{"text": words(7)}]}],
    }
    cache = PrefixCache(count)
    usage(cache, "gemini", "gemini-2.5-pro", body)
    longer = {**body, "contents": [*body["contents"], {"role": "model", "parts": [{"text": words(9)}]}]}
    assert usage(cache, "gemini", "gemini-2.5-pro", longer) == (5_116, 5_107, 0)


def test_a_factor_stretches_every_count():
    """A provider that counts 1.8 times as much does so for the prompt and for its cached share."""
    cache = PrefixCache(count, 1.8)
    usage(cache, "anthropic", SONNET, claude((1_000, True)))
    assert usage(cache, "anthropic", SONNET, claude((1_000, False), (500, True))) == (2_700, 1_800, 900)


def test_media_count_flat():
    """A picture is no text, however long its base64 is."""
    picture = "iVBORw0KGgo" * 9_000
    assert text_tokens({"type": "base64", "data": picture}, lambda text: 1) == MEDIA_TOKENS + 1
    assert text_tokens([{"url": f"data:image/png;base64,{picture}"}, "a text"], lambda text: 1) == MEDIA_TOKENS + 1
    assert text_tokens("plain words " * 900, len) == 10_800


def test_a_bill_adds_up_by_price():
    """Input at the full price, reads for a tenth, writes for a quarter more."""
    bill = add_up([CallUsage("a", 1_000, 0, 800), CallUsage("a", 1_500, 800, 500)])
    assert bill == InputBill(calls=2, input=400, cached=800, written=1_300)
    assert bill.tokens == 2_500
    assert bill.cost() == pytest.approx(400 + 80 + 1_625)


@pytest.fixture
def provider(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with ScriptedProvider(factor=1.2) as running:
        yield running


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("dialect", AGENTS)
def test_the_usage_arrives_in_the_providers_own_fields(provider, dialect, stream):
    """The second of two calls reads the first one's prompt, and the SDK shows the counts that the bill has."""
    provider.play(Step("One.", do=(Read("a.py"),)), Step("Two."))
    tools = CLIENTS["pi"]
    agent = AGENTS[dialect](provider.url, tools)
    seen: list[tuple[int, int, int]] = []
    watch(agent, dialect, seen)
    agent.say(f"{ASKED} {'It is a long story. ' * 1_200}")
    if dialect == "anthropic":
        agent.more["cache_control"] = {"type": "ephemeral"}
    heard = agent.ask(stream=stream)
    agent.tell([(heard.calls[0][0], "read", "text " * 500)])
    agent.ask(stream=stream)
    agent.close()
    first, second = provider.usages
    assert seen == [(one.tokens, one.cached, one.written) for one in (first, second)]
    assert first.cached == 0
    assert first.tokens >= second.cached > 0.9 * first.tokens
    assert second.written == (second.tokens - second.cached if dialect == "anthropic" else 0)
    assert provider.bill == add_up([first, second])
    assert list(provider.bills.values()) == [provider.bill]


def watch(agent, dialect, seen):
    """Note the usage of every reply as the SDK read it."""
    agent.watch = lambda reply: seen.append(READ[dialect](reply))


def _claude(reply):
    told = reply.usage
    read, written = told.cache_read_input_tokens, told.cache_creation_input_tokens
    return told.input_tokens + read + written, read, written


READ = {
    "openai_chat": lambda reply: (reply.usage.prompt_tokens, reply.usage.prompt_tokens_details.cached_tokens, 0),
    "openai_responses": lambda reply: (reply.usage.input_tokens, reply.usage.input_tokens_details.cached_tokens, 0),
    "anthropic": _claude,
    "gemini": lambda reply: (
        reply.usage_metadata.prompt_token_count,
        reply.usage_metadata.cached_content_token_count or 0,
        0,
    ),
}


def test_a_turn_may_say_its_usage_itself(provider):
    """Counts of a script are reported as they are, and are on the bill."""
    provider.script(Turn("One.", counted=900, cached=512), Turn("Two.", counted=700))
    agent = AGENTS["anthropic"](provider.url, [])
    seen: list[tuple[int, int, int]] = []
    watch(agent, "anthropic", seen)
    for text in ("A", "B"):
        agent.say(text)
        agent.ask()
    agent.close()
    assert seen == [(900, 512, 0), (700, 0, 0)]
    assert provider.bill == InputBill(2, 388 + 700, 512, 0)


def test_begin_forgets_the_cache(provider):
    """A test that begins anew pays the full price again."""
    agent = AGENTS["openai_chat"](provider.url, [])
    agent.say("It is a long story. " * 1_000)
    kept = list(agent.messages)
    shares = []
    for _ in range(2):
        provider.script(Turn("One."), Turn("One."))
        for _ in range(2):
            agent.messages = list(kept)
            agent.ask()
        shares.append([one.cached > 0 for one in provider.usages])
        provider.begin()
    agent.close()
    assert shares == [[False, True], [False, True]]
    assert provider.bill == InputBill(0, 0, 0, 0)
