"""One session, several models: what one of them sealed is nobody else's to read."""

from base64 import b64decode, urlsafe_b64encode
from collections.abc import Callable
from typing import Any

import pytest

from foveal import result, system, user
from foveal.stores import Store
from foveal.testing.provider import ScriptedProvider
from foveal.testing.provider import replies as spelled
from foveal.testing.provider.replies import OTHER_SEAL, SEAL, Call, Turn

from .conftest import DIALECTS
from .lines import Line

SECRET = "a thought that is nobody else's"
BLOB = "b3BhcXVlIGJsb2Igb2Ygb25lIHByb3ZpZGVy"

OPAQUE: dict[str, Callable[[str], dict[str, Any]]] = {
    "openai_chat": lambda model: spelled.chat(Turn("Searched.", thinking=SECRET), model, 9, 100),
    "openai_responses": lambda model: spelled.responses_body(
        [
            {"id": "rs_9", "type": "reasoning", "summary": [], "encrypted_content": SEAL},
            {
                "id": "ws_9",
                "type": "web_search_call",
                "status": "completed",
                "action": {"type": "search", "query": BLOB},
            },
            {
                "id": "msg_9",
                "type": "message",
                "role": "assistant",
                "status": "completed",
                "content": [{"type": "output_text", "text": "Searched.", "annotations": []}],
            },
        ],
        model,
    ),
    "anthropic": lambda model: spelled.anthropic_body(
        [
            {"type": "thinking", "thinking": SECRET, "signature": SEAL},
            {"type": "server_tool_use", "id": "srvtoolu_9", "name": "web_search", "input": {"query": BLOB}},
            {
                "type": "web_search_tool_result",
                "tool_use_id": "srvtoolu_9",
                "content": [
                    {"type": "web_search_result", "title": "t", "url": "https://example.org", "encrypted_content": BLOB}
                ],
            },
            {"type": "text", "text": "Searched."},
        ],
        model,
    ),
    "gemini": lambda model: spelled.gemini_body(
        [
            {"text": SECRET, "thought": True},
            {"executableCode": {"language": "PYTHON", "code": f"print('{BLOB}')"}},
            {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": BLOB}},
            {"text": "Searched."},
            {"text": "", "thoughtSignature": SEAL},
        ],
        model,
    ),
}


@pytest.mark.parametrize("to", DIALECTS)
@pytest.mark.parametrize("start", DIALECTS)
def test_another_model_takes_over_in_the_middle_of_a_loop(
    provider: ScriptedProvider, lines: Callable[[str], Line], store: Store, start: str, to: str
) -> None:
    """The new provider accepts the session, answers it, and gets nothing that only the old one can read."""
    one, other = lines(start), lines(to)
    model = other.sibling if start == to else other.model
    provider.script(OPAQUE[start](one.model), Turn("Reading.", (Call("call_1"), Call("call_2")), thinking=SECRET))
    with one.session(store) as session:
        session.append(system("You repair programs."))
        session.append(user("Search first."))
        one.send(provider, session)
        session.append(user("Now read."))
        one.send(provider, session)
        session.append(result("call_1", "the file"))

    provider.script(Turn("", (Call("call_3"),), thinking="mine"), Turn("Done."))
    with other.session(store, model=model) as session:
        session.append(result("call_2", "the other file"))
        other.send(provider, session)
        session.append(result("call_3", "the last file"))
        other.send(provider, session)

    for raw in [request.raw for request in provider.requests[2:]]:
        text = raw.decode()
        assert "Searched." in text
        assert "the other file" in text
        for secret in (SECRET, BLOB):
            assert secret not in text
    assert not sealed(provider.requests[2].raw)
    assert OTHER_SEAL.encode() not in provider.requests[2].raw
    assert not [seal for seal in ("rs_9", "srvtoolu_9", "msg_9") if seal in provider.requests[3].raw.decode()]


@pytest.mark.parametrize("line", DIALECTS, indirect=True)
def test_the_first_model_finds_its_own_thinking_again(
    provider: ScriptedProvider, lines: Callable[[str], Line], line: Line, store: Store
) -> None:
    """The log keeps what another model could not read; back at the first, it is sent as before."""
    guest = lines("anthropic" if line.dialect == "gemini" else "gemini")
    provider.script(Turn("", (Call("call_1"),), thinking=SECRET), Turn("Guest."), Turn("Host."))
    with line.session(store) as session:
        session.append(user("Read."))
        line.send(provider, session)
        session.append(result("call_1", "the file"))
    with guest.session(store) as session:
        guest.send(provider, session)
        session.append(user("And you?"))
    with line.session(store) as session:
        line.send(provider, session)
    assert not sealed(provider.requests[1].raw)
    assert sealed(provider.requests[2].raw) == (line.dialect != "openai_chat")


def sealed(raw: bytes) -> bool:
    """Whether the seal is in the body, in either alphabet of base64."""
    return any(seal in raw for seal in (SEAL.encode(), urlsafe_b64encode(b64decode(SEAL))))
