"""Recorded parts made acceptable to providers: in the view only, and named in the trace."""

import pytest

from foveal.testing import oracles
from foveal.testing.builders import MODELS, Asks, Player
from foveal.testing.strategies import ODD_IDS, tiny_png
from foveal.text.repair import json_object, repair_part
from foveal.values.entry import (
    Fold,
    Image,
    Message,
    Opaque,
    PartFold,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    assistant,
    result,
    user,
)

DIALECTS = sorted(MODELS)


@pytest.mark.parametrize(("levels", "is_read"), [(1, True), (64, True), (65, False), (400, False), (100_000, False)])
def test_arguments_nested_too_deeply_are_sent_as_text(levels: int, *, is_read: bool) -> None:
    """How deep is too deep does not depend on how deep the caller's stack is."""
    text = '{"a":' * levels + "1" + "}" * levels
    assert (json_object(text) is not None) == is_read
    mended, wrong = repair_part(ToolCall("c", "read", text))
    assert isinstance(mended, ToolCall)
    assert json_object(mended.arguments) is not None
    assert bool(wrong) != is_read


def test_brackets_inside_strings_are_not_depth() -> None:
    """A string full of brackets is a string."""
    assert json_object('{"a": "' + "[" * 500 + '\\"{{"}') is not None


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("call_id", ODD_IDS)
def test_odd_ids_pair_all_the_same(dialect: str, call_id: str) -> None:
    """For any recorded id, call and result carry one id that every provider accepts, counted as it is sent."""
    player = Player(dialect=dialect)
    twice = [ToolCall(call_id, "read", "{}")] * 2
    player.play([user("Go."), assistant("", *twice), result(call_id, "one"), result(call_id, "two"), Asks()])
    prompt = player.prompts[-1]
    assert oracles.problems(prompt) == []
    assert oracles.recount(prompt) <= prompt.tokens
    sent = "\n".join(oracles.strings(prompt.request))
    assert "one" in sent
    assert "two" in sent


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_reply_recorded_in_three_pieces_is_one_reply(dialect: str) -> None:
    """Pieces of a reply without results yet belong together, and results find their calls."""
    pieces = [assistant("", ToolCall(f"c{i}", "read", "{}")) for i in range(3)]
    player = Player(dialect=dialect)
    player.play([user("Go."), *pieces, *(result(f"c{i}", f"<{i}>") for i in range(3)), Asks()])
    prompt = player.prompts[-1]
    assert oracles.problems(prompt) == []
    assert not any("late result" in text for text in oracles.strings(prompt.request))
    assert len([atom for atom in prompt.atoms if atom.kind == "tools"]) == 1


def test_two_models_do_not_share_a_reply() -> None:
    """A reply of another model after unanswered calls is a reply of its own."""
    one = assistant("", ToolCall("c1", "read", "{}"), model="gpt-5")
    two = assistant("", ToolCall("c2", "read", "{}"), model="gpt-4o")
    player = Player()
    player.play([user("Go."), one, two, Asks()])
    assert len([atom for atom in player.prompts[-1].atoms if atom.kind == "tools"]) == 2


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_blank_request_asks_for_nothing(dialect: str) -> None:
    """An empty first message does not take the place of the first request, nor an empty last one that of the latest."""
    player = Player(dialect=dialect, limit=1_500)
    player.play(
        [user(""), user("the real task"), *[assistant("word " * 300)] * 8, user("the real question"), user(" "), Asks()]
    )
    sent = "\n".join(oracles.strings(player.prompts[-1].request))
    assert player.prompts[-1].fold
    assert "the real task" in sent
    assert "the real question" in sent


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_same_provider_part_is_sent_once(dialect: str) -> None:
    """A reply that a host appended twice does not send the same sealed item twice."""
    sealed = '{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"Zm92ZWFs"}'
    said = Message("assistant", (Opaque("openai", sealed), Text("hello")), MODELS[dialect])
    player = Player(dialect=dialect)
    player.play([user("Go."), said, user("Again."), said, user("Once more."), Asks()])
    assert oracles.problems(player.prompts[-1]) == []


@pytest.mark.parametrize("dialect", DIALECTS)
def test_an_image_by_data_address_is_sent_as_its_bytes(dialect: str) -> None:
    """An address that is the image itself means the same to all four formats."""
    from base64 import b64encode  # noqa: PLC0415 - nowhere else

    address = "data:image/png;base64," + b64encode(tiny_png()).decode()
    by_address, by_bytes = Player(dialect=dialect), Player(dialect=dialect)
    by_address.play([user("See.", Image("image/png", url=address)), Asks()])
    by_bytes.play([user("See.", Image("image/png", tiny_png())), Asks()])
    assert oracles.body(by_address.prompts[-1]) == oracles.body(by_bytes.prompts[-1])


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("text", ["", "  ", "not json", "\ud800"])
def test_a_fold_by_hand_cannot_break_the_request(dialect: str, text: str) -> None:
    """Stand-ins that a host writes itself are mended like everything else."""
    player = Player(dialect=dialect)
    player.play([user("Go."), assistant("Look.", ToolCall("c1", "read", "{}")), result("c1", "found")])
    call, answer = player.entries[1:]
    items = [
        PartFold(call, 1, "own", text, 1, "host", "why not"),
        PartFold(answer, 0, "own", text, 1, "host", "why not"),
    ]
    player.session.append(
        Fold((*items, PartFold(call, -1, "own", text, 1, "host", "no such part")), "by hand", 0, 0, 0)
    )
    player.ask()
    assert oracles.problems(player.prompts[-1]) == []


@pytest.mark.parametrize("dialect", DIALECTS)
def test_signed_thinking_is_sent_whole_or_not_at_all(dialect: str) -> None:
    """Thinking that holds what cannot be sent is hidden and not mended: its signature would no longer match."""
    player = Player(dialect=dialect)
    said = Message(
        "assistant", (Thinking("a\ud800b", "c2ln"), Thinking("clean", "c2ln"), Text("hello")), MODELS[dialect]
    )
    player.play([user("Go."), said, user("On."), Asks()])
    sent = "\n".join(oracles.strings(player.prompts[-1].request))
    assert oracles.problems(player.prompts[-1]) == []
    assert "\ufffd" not in sent
    assert ("clean" in sent) == (dialect == "anthropic")


def test_late_results_in_one_message_are_counted_each() -> None:
    """Sixty results that no call is waiting for are shown as notes, and every label is counted."""
    player = Player()
    late = Message("tool", tuple(ToolResult(f"gone_{i}", (Text("x"),)) for i in range(60)))
    player.play([user("Go."), late, Asks()])
    assert oracles.recount(player.prompts[-1]) <= player.prompts[-1].tokens
