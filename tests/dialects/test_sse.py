"""The codec of server-sent events: any pieces of bytes give the same events, and their bytes are kept."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foveal.dialects.sse import SseDecoder, SseEvent, sse_event

from .rounds import in_pieces


def events_of(data: bytes, *, sizes: tuple[int, ...] = (1_000,)) -> list[SseEvent]:
    decoder = SseDecoder()
    return [*(event for piece in in_pieces(data, sizes) for event in decoder.feed(piece)), *decoder.end()]


LINES = st.sampled_from(
    [
        b"data: a",
        b"data:b",
        b"data:  c",
        b"data",
        "data: é😀".encode(),
        b"event: x",
        b": note",
        b"id: 7",
        b"retry: 3",
        b"",
    ]
)
STREAMS = st.tuples(st.lists(LINES, max_size=12), st.sampled_from([b"\n", b"\r\n", b"\r"]), st.booleans()).map(
    lambda drawn: (b"\xef\xbb\xbf" if drawn[2] else b"") + drawn[1].join((*drawn[0], b""))
)


@settings(deadline=None)
@given(data=STREAMS, sizes=st.lists(st.integers(1, 5), min_size=1, max_size=4))
def test_pieces_do_not_matter(data, sizes):
    """Events are the same however the bytes are cut, within characters and line ends too, and together they are the bytes."""
    assert events_of(data, sizes=tuple(sizes)) == events_of(data)
    assert b"".join(event.raw for event in events_of(data)) == data


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_fields_are_read(end):
    """Lines of data are joined, one space after the colon is no data, and other fields are passed over."""
    lines = ["\ufeffevent: delta", "id: 7", "data: one", "data:  two", "data", "data:é", ": note", "", ""]
    [event] = events_of(end.join(lines).encode())
    assert (event.name, event.data) == ("delta", "one\n two\n\né".encode())
    assert event.is_whole


def test_comments_are_events_without_data():
    """A keep-alive is handed on as it came."""
    assert [(event.raw, event.data) for event in events_of(b": ping\n\ndata: x\n\n\n")] == [
        (b": ping\n\n", None),
        (b"data: x\n\n", b"x"),
        (b"\n", None),
    ]


def test_an_event_ends_with_its_blank_line():
    """Nothing is told before the blank line has come; at the end of a stream the rest is told as torn."""
    decoder = SseDecoder()
    assert decoder.feed(b"data: x\r\n\r") == []
    assert decoder.feed(b"\ndata: y\n") == [SseEvent(b"data: x\r\n\r\n", "", b"x")]
    [rest] = decoder.end()
    assert (rest.data, rest.is_whole) == (b"y", False)
    assert decoder.end() == []


def test_data_can_be_replaced():
    """The other lines of the event and its line ends stay."""
    [event] = events_of(b"id: 7\r\nevent: x\r\ndata: one\r\ndata: two\r\n: note\r\n\r\n")
    assert event.with_data(b"new").raw == b"id: 7\r\nevent: x\r\ndata: new\r\n: note\r\n\r\n"


def test_a_made_event_reads_back():
    """Writing and reading are inverse."""
    assert events_of(sse_event(b"{}", "ping").raw) == [sse_event(b"{}", "ping")]
    assert sse_event(b"[DONE]").raw == b"data: [DONE]\n\n"
