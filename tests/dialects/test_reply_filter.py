"""Replies without own calls: any exchange, in any dialect, cut into any pieces, is one reply for the client."""

from collections.abc import Sequence
from itertools import chain
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foveal.dialects import DIALECTS, find_dialect
from foveal.dialects.port import WireReply

from .rounds import (
    EXCHANGES,
    MIXED,
    OWN,
    PLAIN,
    Part,
    asks_again,
    decoded,
    in_pieces,
    new_filter,
    run,
    spell,
    split_names,
    stream,
)

SIZES = st.lists(st.integers(1, 400), min_size=1, max_size=4)
every_dialect = pytest.mark.parametrize("dialect", DIALECTS)


def assembled(dialect: str, data: bytes) -> WireReply:
    reply = find_dialect(dialect).reader.stream()
    for event in decoded(data):
        reply.feed(event)
    return reply.reply()


def streamed(
    dialect: str, rounds: Sequence[Sequence[Part]], sizes: Sequence[int], own: Sequence[str] = OWN, name_cut: int = 0
) -> tuple[bytes, WireReply]:
    """Return the bytes that the client gets of an exchange, and the reply that the filter says it saw."""
    seen, sent = new_filter(dialect, own), b""
    for number, parts in enumerate(rounds):
        events = stream(dialect, spell(dialect, parts, number))
        if dialect == "openai_chat" and name_cut:
            events = split_names(events, name_cut)
        sent += run(seen, in_pieces(b"".join(events), sizes))
    sent += b"".join(event.raw for event in seen.finish())
    return sent, seen.shown


def unstreamed(dialect: str, rounds: Sequence[Sequence[Part]]) -> dict[str, Any]:
    seen = new_filter(dialect)
    for number, parts in enumerate(rounds):
        seen.take(spell(dialect, parts, number))
    return seen.body


def numbers(dialect: str, data: bytes) -> list[list[int]]:
    """Return each kind of number that a client counts by, in the order of first use."""
    events = decoded(data)
    match dialect:
        case "anthropic":
            found = [[event["index"] for event in events if "index" in event]]
        case "openai_responses":
            items = [event["output_index"] for event in events if "output_index" in event]
            found = [items, [event["sequence_number"] for event in events]]
        case "openai_chat":
            deltas = [choice["delta"] for event in events for choice in event["choices"]]
            found = [[call["index"] for delta in deltas for call in delta.get("tool_calls", ())]]
        case _:
            found = []
    return [list(dict.fromkeys(kind)) for kind in found]


def check(dialect: str, data: bytes, rounds: Sequence[Sequence[Part]]) -> None:
    """Assert all that a client relies on."""
    called = {part.text for parts in rounds for part in parts if part.kind == "call"}
    # A name of the client's that begins with an own one may come in pieces, and the first of them be the own name.
    hidden = [name for name in OWN if not any(one != name and one.startswith(name) for one in called)]
    assert not any(name.encode() in data for name in hidden)
    whole = unstreamed(dialect, rounds)
    assert assembled(dialect, data) == find_dialect(dialect).reader.reply(whole)
    for kind in numbers(dialect, data):
        assert kind == list(range(len(kind)))


@every_dialect
@settings(max_examples=50, deadline=None)
@given(rounds=EXCHANGES, sizes=SIZES, name_cut=st.integers(0, 20))
def test_the_client_gets_one_reply_without_own_calls(dialect, rounds, sizes, name_cut):
    """However many rounds there were and however the bytes came, stream and unstreamed reply say the same, without a trace."""
    data, shown = streamed(dialect, rounds, sizes, name_cut=name_cut)
    check(dialect, data, rounds)
    assert shown == assembled(dialect, data)


@every_dialect
@settings(max_examples=50, deadline=None)
@given(rounds=EXCHANGES)
def test_the_reply_is_what_was_said_to_the_client(dialect, rounds):
    """Calls of the client, texts and thinking of all rounds are there, in their order; the usage is of the last prompt."""
    reader = find_dialect(dialect).reader
    message, usage = reader.reply(unstreamed(dialect, rounds))
    upstream = [reader.reply(spell(dialect, parts, number)) for number, parts in enumerate(rounds)]
    calls = [part for reply in upstream for part in reply.message.parts if getattr(part, "name", None)]
    assert [part for part in message.parts if getattr(part, "name", None)] == [c for c in calls if c.name not in OWN]  # pyright: ignore
    told = "".join(part.text for parts in rounds for part in parts if part.kind == "text")
    said = "".join(part.text for part in message.parts if type(part).__name__ == "Text")  # pyright: ignore
    assert said.replace("\n", "") == told.replace("\n", "")
    assert usage
    assert upstream[-1].usage
    assert usage.input_tokens == upstream[-1].usage.input_tokens
    assert usage.cache_read_tokens == upstream[-1].usage.cache_read_tokens
    assert usage.output_tokens == sum(reply.usage.output_tokens for reply in upstream if reply.usage)


@every_dialect
@settings(max_examples=50, deadline=None)
@given(rounds=EXCHANGES)
def test_every_round_is_told_as_it_came(dialect, rounds):
    """The reply of a round has its own calls and its own usage, and the model is asked again after own calls alone."""
    reader = find_dialect(dialect).reader
    seen, whole = new_filter(dialect), new_filter(dialect)
    for number, parts in enumerate(rounds):
        body = spell(dialect, parts, number)
        run(seen, stream(dialect, body))
        assert seen.rounds[-1].reply == whole.take(body).reply == reader.reply(body)
        assert seen.rounds[-1].again == whole.rounds[-1].again == asks_again(parts)
    assert len(seen.rounds) == len(rounds)


@every_dialect
@settings(max_examples=50, deadline=None)
@given(parts=PLAIN, sizes=SIZES, name_cut=st.integers(0, 20))
def test_a_stream_without_own_calls_keeps_its_bytes(dialect, parts, sizes, name_cut):
    """Nothing is changed, added or left out, whatever the client's tools are called; an unstreamed reply is itself."""
    events = stream(dialect, body := spell(dialect, parts))
    if dialect == "openai_chat" and name_cut:
        events = split_names(events, name_cut)
    noisy = b": ping\r\n\r\n" + b"".join(chain.from_iterable((event, b": keep-alive\n\n") for event in events))
    assert run(new_filter(dialect), in_pieces(noisy, sizes)) == noisy
    assert (whole := new_filter(dialect)).take(body).again is False
    assert whole.body is body


@every_dialect
@settings(max_examples=50, deadline=None)
@given(parts=MIXED, data=st.data())
def test_a_stream_that_breaks_off_gives_the_part_that_came(dialect, parts, data):
    """The client sees the beginning of what it would have seen, no trace of own calls, and the round is aborted."""
    events = stream(dialect, spell(dialect, parts))
    whole = run(new_filter(dialect), events)
    length = data.draw(st.integers(0, len(b"".join(events))))
    seen = new_filter(dialect)
    sent = run(seen, [b"".join(events)[:length]])
    assert not any(name.encode() + b'"' in sent for name in OWN)
    if not asks_again(parts):
        assert whole.startswith(sent)
    if length < len(b"".join(events[: len(events) // 2])):
        assert seen.rounds[-1].reply
        assert seen.rounds[-1].reply.message.stop == "aborted"
        assert not seen.rounds[-1].again


@every_dialect
def test_an_own_call_that_is_shown_is_noticed(dialect):
    """The checks fail for a filter that hides one name too few."""
    rounds = [[Part("text", "a"), Part("call", OWN[0]), Part("call", OWN[1]), Part("call", "read")]]
    data, _ = streamed(dialect, rounds, [50])
    check(dialect, data, rounds)
    data, _ = streamed(dialect, rounds, [50], OWN[1:])
    with pytest.raises(AssertionError):
        check(dialect, data, rounds)
