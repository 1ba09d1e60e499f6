"""What the provider counted comes back to the budget."""

from foveal import Policy, Usage, result, system, user
from foveal.stores import Store
from foveal.stores.rows import to_entry
from foveal.testing.provider import ScriptedProvider
from foveal.testing.provider.replies import SPELLED, Call, Turn

from .lines import Line
from .test_loop import TOOLS, listing

REASONING = {"gemini": 2, "openai_responses": 0}
"""Tokens of reasoning within the seven of the output, where the scripted provider tells them."""


def usages(store: Store) -> list[Usage]:
    bodies = [to_entry(row, "wire").body for row in store.rows("wire")]
    return [body for body in bodies if isinstance(body, Usage)]


def test_a_reply_leaves_a_usage_mark_with_its_cached_tokens(
    provider: ScriptedProvider, line: Line, store: Store
) -> None:
    """Input tokens are all that was sent, cached or not, beside our own count of the same prompt."""
    provider.script(Turn("Hello.", counted=5_000, cached=4_096))
    session = line.session(store)
    session.append(user("Hi."))
    prompt, _ = line.send(provider, session)
    told = Usage(line.model, 5_000, 7, 4_096, estimated=prompt.tokens, reasoning_tokens=REASONING.get(line.dialect))
    assert usages(store) == [told]


def test_a_provider_that_counts_more_gets_less(provider: ScriptedProvider, line: Line, store: Store) -> None:
    """After three calls in which the provider counted 1.3 times as much as we did, its own count stays within the limit."""
    session = line.session(store, policy=Policy(max_context_tokens=6_000))
    session.append(system("You repair programs."))
    session.append(user("Find the bug."))
    sent: list[tuple[int, int]] = []
    for i in range(16):
        ours = session.prompt(TOOLS).tokens
        provider.script(Turn("", (Call(f"c{i}"),), counted=round(ours * 1.3)))
        prompt, _ = line.send(provider, session, TOOLS)
        assert prompt.tokens == ours
        sent.append((prompt.tokens, prompt.setup.limit))
        session.append(result(f"c{i}", listing(f"{i}.py", 25)))
    learned = sent[3:]
    assert all(tokens * 1.3 <= limit + 1 for tokens, limit in learned)
    assert max(tokens for tokens, _ in learned) * 1.3 > 0.6 * learned[0][1], "the budget is used"
    assert max(tokens for tokens, _ in learned) < learned[0][1] / 1.3 + 1


def test_a_reply_without_usage_leaves_no_mark(provider: ScriptedProvider, line: Line, store: Store) -> None:
    """Servers that report nothing teach nothing, and nothing breaks."""
    body = SPELLED[line.dialect](Turn("Hello."), line.model, 1, 1)
    body = {key: value for key, value in body.items() if key not in ("usage", "usageMetadata")}
    provider.script(body, Turn("Again."))
    session = line.session(store)
    session.append(user("Hi."))
    line.send(provider, session)
    assert usages(store) == []
    session.append(user("Once more."))
    line.send(provider, session)
    assert len(usages(store)) == 1
