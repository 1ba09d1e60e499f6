"""Replies with one field changed: refused when they are appended, or never in the way of a later prompt."""

from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any

import pytest

from foveal.testing import oracles
from foveal.testing.builders import MODELS, Asks, Player, open_session
from foveal.testing.replies import REPLIES, SEAL
from foveal.values.entry import Message, Opaque, Text, user
from foveal.values.errors import BadInput

GONE = object()
CHANGES: tuple[Any, ...] = (GONE, None, "", 0, [], {"x": 1}, "\ud800", b"\xff", {"type": "x"})


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every field of a reply."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield (*at, key)
        yield from places(inner, (*at, key))


def changed(reply: dict[str, Any], at: tuple[Any, ...], value: Any) -> dict[str, Any]:
    copy = deepcopy(reply)
    inner: Any = copy
    for key in at[:-1]:
        inner = inner[key]
    if value is GONE:
        del inner[at[-1]]
    else:
        inner[at[-1]] = value
    return copy


def _chat(body: dict[str, Any]) -> Any:
    return pytest.importorskip("openai.types.chat").ChatCompletion.construct(**body)


def _responses(body: dict[str, Any]) -> Any:
    return pytest.importorskip("openai.types.responses").Response.construct(**body)


def _anthropic(body: dict[str, Any]) -> Any:
    return pytest.importorskip("anthropic.types").Message.construct(**body)


def _gemini(body: dict[str, Any]) -> Any:
    try:
        return pytest.importorskip("google.genai.types").GenerateContentResponse.model_validate(body)
    except (ValueError, AttributeError):  # this SDK checks what it reads
        return body


SDKS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "openai_chat": _chat,
    "openai_responses": _responses,
    "anthropic": _anthropic,
    "gemini": _gemini,
}


@pytest.mark.filterwarnings("ignore:.* is not a valid")  # of Gemini's SDK, about names that it does not know
@pytest.mark.parametrize("dialect", REPLIES)
def test_a_reply_with_one_field_changed_breaks_no_later_prompt(dialect: str) -> None:
    """Each field of a rich reply, lost or of another kind: refused as a whole when appended, or the next prompt is valid."""
    kept = 0
    for at in places(REPLIES[dialect]):
        for number, value in enumerate(CHANGES):
            body = changed(REPLIES[dialect], at, value)
            session = open_session(dialect=dialect)
            session.append(user("First."))
            try:
                session.append(SDKS[dialect](body) if number % 2 else body)
            except BadInput:
                continue
            kept += 1
            session.append(user("Second."))
            assert oracles.problems(session.prompt()) == [], (at, value)
    assert kept > 250


def test_an_sdk_object_that_cannot_be_dumped_is_refused_with_a_way_out() -> None:
    """A field that no JSON can hold is the caller's affair, and the error says what to append instead."""
    reply = _chat(changed(REPLIES["openai_chat"], ("usage",), object))
    with pytest.raises(BadInput, match="append its JSON as a dict"):
        open_session().append(reply)


ODD_BLOCKS = {
    "anthropic": [
        Opaque("anthropic", '{"type":7}'),
        Opaque("anthropic", '{"type":"text","text":5,"citations":[1]}'),
        Opaque("anthropic", '{"type":"server_tool_use","id":"a b","name":"web_search","input":{}}'),
        Opaque("anthropic", '{"type":"compaction","content":""}'),
    ],
    "openai_responses": [
        Opaque("openai", '{"type":""}'),
        Opaque("openai", '{"type":"reasoning","id":"bad id","summary":[],"encrypted_content":"x"}'),
    ],
    "gemini": [
        Opaque("gemini", '{"inline_data":{"mime_type":"image/bmp","data":"aGk="}}'),
        Opaque("gemini", '{"file_data":{}}'),
        Opaque("gemini", '{"executable_code":{"code":"1"},"text":"x"}'),
    ],
}


@pytest.mark.parametrize(("dialect", "block"), [(d, block) for d, blocks in ODD_BLOCKS.items() for block in blocks])
def test_a_block_that_the_provider_would_refuse_is_hidden_with_the_reason(dialect: str, block: Opaque) -> None:
    """The words around it are sent; the trace says what is wrong with the block; the log keeps it."""
    said = Message("assistant", (Text("Before."), block, Text("After.")), MODELS[dialect])
    player = Player(dialect=dialect).play([user("Go."), said, user("On."), Asks()])
    prompt = player.prompts[-1]
    line = next(line for line in prompt.trace.lines if line.entry == player.entries[1])
    assert oracles.problems(prompt) == []
    assert (line.shown, line.policy) == ("full+hidden", "dialect")
    assert "the provider would refuse it" in line.because
    sent = "\n".join(oracles.strings(prompt.request))
    assert "Before." in sent
    assert "After." in sent


def test_an_item_that_comes_again_with_other_content_is_sent_once() -> None:
    """OpenAI refuses two items of one id, even where a field of them differs."""
    item = '{{"type":"web_search_call","id":"ws_1","status":"{}"}}'
    moves = [
        user("Go."),
        *(
            Message("assistant", (Opaque("openai", item.format(status)), Text(status)), MODELS["openai_responses"])
            for status in ("searching", "completed")
        ),
        Asks(),
    ]
    prompt = Player(dialect="openai_responses").play(moves).prompts[-1]
    assert oracles.problems(prompt) == []
    assert str(prompt.request).count("ws_1") == 1


def test_the_sound_blocks_of_a_reply_are_all_sent_back() -> None:
    """The check hides nothing that a provider takes."""
    session = open_session(dialect="anthropic")
    session.append(user("First."))
    session.append(REPLIES["anthropic"])
    blocks = session.prompt().request["messages"][1]["content"]
    assert [block["type"] for block in blocks] == [block["type"] for block in REPLIES["anthropic"]["content"]]
    assert blocks[0]["signature"] == SEAL
