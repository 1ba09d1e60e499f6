"""Recorded parts made acceptable to providers: in the view only, and named in the trace."""

import pytest

from foveal.testing import oracles
from foveal.testing.builders import MODELS, Asks, Player
from foveal.testing.strategies import ODD_IDS, tiny_png
from foveal.text.repair import json_object, repair_part, sendable_part, settle, unwrapped
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


@pytest.mark.parametrize(("levels", "is_read"), [(62, True), (63, False)])
def test_what_is_closed_is_not_depth(levels: int, *, is_read: bool) -> None:
    """Objects side by side are one level, however many there are; those inside of the last one are counted on."""
    text = '{"a":[' + "{}," * 100 + "[" * levels + "]" * levels + "]}"
    assert (json_object(text) is not None) == is_read


def test_a_string_that_was_cut_off_is_read_in_one_go() -> None:
    """A reply that ends inside of a long text full of quotes: to look for the end of each of them would take minutes."""
    assert json_object('{"a":[' + "{}," * 100 + '"' + '\\"' * 500_000) is None


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


def note(*results: ToolResult) -> tuple[Message, ...]:
    """The messages that show results for which no call is waiting."""
    player = Player().play([user("Go."), Message("tool", results)])
    return settle(player.session.view.atoms[-1])


def test_a_late_result_is_said_by_the_user() -> None:
    """A result that no call is waiting for is not lost: the model reads all of it, under the call and with how that ended."""
    assert note(
        ToolResult("c1", (Text("one"), Image("image/png", tiny_png()))),
        ToolResult("c2", (Text("two"),), "error"),
        ToolResult("c/3", (Text("three"),), "interrupted"),
    ) == (
        Message(
            "user",
            (
                Text("[late result for call c1]"),
                Text("one"),
                Image("image/png", tiny_png()),
                Text("[late result for call c2, which failed]"),
                Text("two"),
                Text("[late result for call c_3, which was interrupted]"),
                Text("three"),
            ),
        ),
    )


def test_a_call_in_a_late_note_has_the_length_of_an_id() -> None:
    """An invented id of any length takes no more room than the longest that providers accept, 64 characters."""
    (message,) = note(ToolResult("x" * 65, (Text("one"),)))
    assert message.parts[0] == Text(f"[late result for call {'x' * 64}]")


def test_a_clean_result_is_the_same_object() -> None:
    """Nothing is built anew where every text can be sent."""
    part = ToolResult("c", (Text("a"), Image("image/png", b"x")))
    assert sendable_part(part) is part


@pytest.mark.parametrize("content", [(Text("a\ud800"),), (Text("a"), Text("b\ud800")), (Text("a\ud800"), Text("b"))])
def test_each_text_of_a_result_can_be_sent(content: tuple[Text, ...]) -> None:
    """Half a character in any of its texts is replaced there, and nowhere else."""
    part = sendable_part(ToolResult("c", content))
    assert isinstance(part, ToolResult)
    assert [item.text for item in part.content if isinstance(item, Text)] == [
        item.text.replace("\ud800", "\ufffd") for item in content
    ]


@pytest.mark.parametrize("address", ["data:image/png;base64,###", "data:image/png,plain", "https://x/a.png"])
def test_an_address_that_holds_no_bytes_stays(address: str) -> None:
    """The image is left as it is, for its dialect to judge."""
    image = Image("image/png", url=address)
    assert repair_part(image) == (image, "")
    assert repair_part(ToolResult("c", (image,))) == (ToolResult("c", (image,)), "")


@pytest.mark.parametrize("text", ["not json", '{"a": ', "[1]", '"a"', "null"])
def test_what_a_model_wrote_in_place_of_an_object_is_found_again(text: str) -> None:
    """A request holds it inside of an object; whoever judges the call sees the words themselves."""
    mended, wrong = repair_part(ToolCall("c", "read", text))
    assert isinstance(mended, ToolCall)
    assert json_object(mended.arguments) is not None
    assert wrong == "the arguments were not a JSON object"
    assert unwrapped(mended.arguments) == text


@pytest.mark.parametrize(
    "arguments",
    [
        "{}",
        '{"a": 1}',
        '{"invalid_json": "x", "a": 1}',
        '{"a": "invalid_json"}',
        '{"invalid_json": 1}',
        '{"invalid_json": "{}"}',
        "not json, invalid_json",
    ],
)
def test_arguments_of_a_models_own_are_not_unwrapped(arguments: str) -> None:
    """Only what this module has wrapped is: an argument of that name, beside others or with an object in it, is the tool's."""
    assert unwrapped(arguments) == arguments
