"""Everything that a writer writes, its reader reads back: the same messages, up to the forms that `read.py` of each lists."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foveal.dialects import find_dialect
from foveal.dialects.port import RequestOptions, Wire
from foveal.testing.strategies import tiny_png
from foveal.values.entry import (
    Content,
    File,
    Image,
    Message,
    Opaque,
    Part,
    RedactedThinking,
    Status,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)

MODEL = "m"
WORDS = st.sampled_from(("a", "Read ü.py.", "two\n\nparagraphs", "  indented", "\u2028", "<b>", '{"json": 1}'))
MEDIA: st.SearchStrategy[Content] = st.sampled_from(
    (
        Image("image/png", tiny_png()),
        Image("image/jpeg", url="https://example.org/a.jpg"),
        File("application/pdf", "a.pdf", b"%PDF"),
    )
)
OWN: dict[str, tuple[Part, ...]] = {
    "anthropic": (
        Thinking("Hm.", "c2ln"),
        RedactedThinking("ZGF0YQ=="),
        Opaque("anthropic", '{"type":"server_tool_use","id":"s1","name":"web_search","input":{"query":null}}'),
    ),
    "gemini": (Text("signed", "c2ln"), Opaque("gemini", '{"executableCode":{"language":"PYTHON","code":"1"}}')),
    "openai_responses": (
        Opaque("openai", '{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"gAAA"}'),
        Opaque("openai", '{"type":"web_search_call","id":"ws_1","status":"completed"}'),
    ),
    "openai_chat": (),
}
"""Parts that only one format can say."""

Atom = tuple[Message, ...]


@st.composite
def replies(draw: st.DrawFn, dialect: str) -> Atom:
    """A reply that ends in words or calls, with the results of its calls."""
    own = draw(st.lists(st.sampled_from(OWN[dialect]), max_size=2)) if OWN[dialect] else []
    text = draw(WORDS.map(str.strip))
    names = draw(st.lists(st.sampled_from(("read", "ls")), max_size=3))
    calls = [ToolCall(f"c{n}", name, '{"path":"ü.py","n":[1,2.5,null]}') for n, name in enumerate(names)]
    reply = Message("assistant", (*own, Text(text or "."), *calls), MODEL)
    if not calls:
        return (reply,)
    answers = [draw(results(dialect, call.id)) for call in calls]
    return reply, Message("tool", tuple(answers))


@st.composite
def results(draw: st.DrawFn, dialect: str, call: str) -> ToolResult:
    """A result as its format can say it: OpenAI's without a status, one text in two formats, media in the others."""
    status: Status = "ok" if dialect.startswith("openai") else draw(st.sampled_from(("ok", "error")))
    words: list[Content] = [Text(draw(WORDS))]
    if dialect in ("anthropic", "openai_responses"):
        words.extend(draw(st.lists(WORDS.map(Text) | MEDIA if status == "ok" else WORDS.map(Text), max_size=2)))
    return ToolResult(call, tuple(words), status)


@st.composite
def conversations(draw: st.DrawFn, dialect: str) -> list[Atom]:
    """Turns of the user and replies, alternating where the format wants that."""
    turns: list[Atom] = []
    for _ in range(draw(st.integers(1, 4))):
        said: list[Part] = [Text(draw(WORDS)), *draw(st.lists(MEDIA | WORDS.map(Text), max_size=2))]
        turns.extend([(Message("user", tuple(said)),), draw(replies(dialect))])
    return [*turns, (Message("user", (Text("Go on."),)),)]


def written(dialect: str, atoms: Sequence[Atom], lead: Sequence[Message] = ()) -> dict[str, Any]:
    chosen = find_dialect(dialect)
    wires: list[Wire] = []
    for atom in atoms:
        chosen.join(wires, chosen.chunk(atom))
    return chosen.request(RequestOptions(MODEL, (), 100), lead, wires)


def normal(dialect: str, atoms: Sequence[Atom]) -> list[Message]:
    """The messages in the form that the format has words for."""
    messages: list[Message] = []
    for message in (message for atom in atoms for message in atom):
        if message.role == "tool":
            messages.extend(Message("tool", (part,)) for part in message.parts)
        else:
            messages.append(
                Message(message.role, tuple(NORMAL[dialect](part) for part in message.parts), message.model)
            )
    return messages


def without_name(part: Part) -> Part:
    return File(part.media_type, "file", part.data, part.url) if isinstance(part, File) else part


def unchanged(part: Part) -> Part:
    return part


NORMAL: dict[str, Callable[[Part], Part]] = {
    "anthropic": unchanged,
    "gemini": without_name,
    "openai_chat": unchanged,
    "openai_responses": unchanged,
}


@pytest.mark.parametrize("dialect", sorted(NORMAL))
@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_request_reads_back_as_its_messages(dialect: str, data: st.DataObject) -> None:
    """Texts, media, calls, results, thinking and the provider's own parts survive the way to the wire and back."""
    atoms = data.draw(conversations(dialect))
    lead = [Message("system", (Text(text),)) for text in data.draw(st.lists(WORDS, max_size=1))]
    request = find_dialect(dialect).reader.request(written(dialect, atoms, lead))
    assert list(request.messages) == normal(dialect, atoms)
    assert list(request.system) == lead


@pytest.mark.parametrize("dialect", sorted(NORMAL))
@settings(max_examples=60, deadline=None)
@given(st.data())
def test_reading_and_writing_again_changes_nothing(dialect: str, data: st.DataObject) -> None:
    """A request that was read and written again is the same request."""
    first = written(dialect, data.draw(conversations(dialect)))
    read = find_dialect(dialect).reader.request(first)
    assert written(dialect, _atoms(read.messages), read.system) == first


def _atoms(messages: Sequence[Message]) -> list[Atom]:
    """Replies with their results, as a view groups them."""
    atoms: list[list[Message]] = []
    for message in messages:
        if message.role != "tool":
            atoms.append([message])
        elif atoms[-1][-1].role == "tool":
            atoms[-1][-1] = Message("tool", (*atoms[-1][-1].parts, *message.parts))
        else:
            atoms[-1].append(message)
    return [tuple(atom) for atom in atoms]
