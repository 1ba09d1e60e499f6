"""A client's request: every message by its bytes, and decoded only if somebody asks for it."""

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from foveal.integrations.client_request import ClientMessages, ClientRequest
from foveal.integrations.exchange import Exchange
from foveal.session.client_session import ClientSession
from foveal.session.policy import Policy
from foveal.stores.memory import MemoryStore
from foveal.values.errors import BadInput

VALUES = st.recursive(
    st.none() | st.integers(0, 120) | st.text('ab,]}"\\ ', max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text("ab", max_size=2), inner, max_size=2),
    max_leaves=4,
)
SPACES = st.sampled_from([b"", b" ", b"\n\t"])


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # a busy machine is no failure
@given(values=st.lists(VALUES, max_size=5), other=st.lists(VALUES, max_size=5), same=st.integers(0, 5), data=st.data())
def test_known_beginnings_are_taken_over_and_change_nothing(
    values: list[Any], other: list[Any], same: int, data: st.DataObject
) -> None:
    """Whatever was known before, the messages are those of the list: no value is taken for the beginning of a longer one."""
    wires = [json.dumps(value).encode() for value in values]
    known = [*wires[:same], *(json.dumps(value).encode() for value in other)]
    gaps = iter(data.draw(st.lists(SPACES, min_size=2 * len(wires) + 1, max_size=2 * len(wires) + 1)))
    raw = b"[" + next(gaps) + b",".join(next(gaps) + wire + next(gaps) for wire in wires) + b"]"

    messages = ClientMessages(raw)
    messages.begin_with(known)

    assert messages.wires == wires
    assert list(messages) == values


def body_of(steps: int) -> bytes:
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Go."}]
    for number in range(steps):
        messages += [{"role": "assistant", "content": f"Step {number}."}, {"role": "user", "content": "On."}]
    return json.dumps({"model": "gpt-5", "messages": messages}).encode()


def test_a_call_decodes_what_is_new() -> None:
    """Of a long list that has grown by a reply and an answer, only its end is decoded."""
    session = ClientSession(MemoryStore(), "s", model="gpt-5", policy=Policy(max_context_tokens=60_000))
    for steps in (40, 41, 41):
        request = ClientRequest.read("openai_chat", body_of(steps))
        exchange = Exchange(session, request)
        assert exchange.body() == request.raw

    assert exchange.followed.outcome == "same"
    assert len(request.messages) == 83
    assert len(request.messages._decoded) <= 4


@pytest.mark.parametrize("listed", ['"text"', "{}", '[{"role":'])
def test_a_list_that_is_none_is_refused(listed: str) -> None:
    """Requests whose messages are no list are no requests of the dialect: the gateway passes them on as they came."""
    with pytest.raises(BadInput):
        len(ClientRequest.read("openai_responses", f'{{"model": "m", "input": {listed}}}'.encode()).messages)


@pytest.mark.parametrize("piece", [b"\xff\xfe", b"\xed\xa0\x80", b"[" * 100_000], ids=["bytes", "surrogate", "deep"])
@pytest.mark.parametrize("place", ["field", "key", "message"])
def test_bytes_that_no_text_is_made_of_are_told(piece: bytes, place: str) -> None:
    """Broken UTF-8 and nesting without end are an error of ours, so that the request is passed on as it came."""
    value = b'"' + piece + b'"' if piece[:1] != b"[" else piece
    told = {
        "field": b'{"messages": [], "system": ' + value + b"}",
        "key": b'{"messages": [], ' + value + b": 1}",
        "message": b'{"messages": [{"role": "user", "content": ' + value + b"}]}",
    }
    with pytest.raises(BadInput):
        list(ClientRequest.read("anthropic", told[place]).messages)
