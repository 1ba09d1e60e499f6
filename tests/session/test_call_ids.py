"""Calls that a host cannot tell apart by the provider's ids, and arguments that are no JSON, as a host gets them."""

import pytest

import foveal


def replied(dialect: str, *names: str) -> dict:
    """A reply that calls these tools, none of them with an id of its own."""
    if dialect == "gemini":
        parts = [{"functionCall": {"name": name, "args": {}}} for name in names]
        return {"candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP"}]}
    made = [{"id": "same", "type": "function", "function": {"name": name, "arguments": "{}"}} for name in names]
    message = {"role": "assistant", "content": None, "tool_calls": made}
    return {"choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]}


MODELS = {"gemini": "gemini-2.5-pro", "openai": "gpt-5"}


def results_of(prompt) -> list[str]:
    """The results of the newest reply in the order of its calls, as the provider reads them."""
    if "messages" in prompt.request:
        asked = next(one for one in reversed(prompt.request["messages"]) if one.get("tool_calls"))
        told = {one["tool_call_id"]: one["content"] for one in prompt.request["messages"] if one["role"] == "tool"}
        return [told[call["id"]] for call in asked["tool_calls"]]
    turns = [turn["parts"] for turn in prompt.request["contents"]]
    asked = [part["function_call"]["id"] for turn in turns for part in turn if "function_call" in part]
    told = {one["id"]: one["response"] for turn in turns for part in turn if (one := part.get("function_response"))}
    return [next(iter(told[call].values())) for call in asked]


@pytest.fixture(params=list(MODELS))
def session(request):
    with foveal.Session(foveal.open_store(), "s", model=MODELS[request.param]) as opened:
        opened.append(foveal.user("Look at both."))
        opened.append(replied(request.param, "first", "second", "third"))
        yield opened


def test_each_call_has_an_id_of_its_own(session):
    """A host that keeps results by the ids of their calls mixes none up."""
    assert len({call.id for call in session.serve()}) == 3


def test_results_reach_their_calls_in_any_order(session):
    """The last call may be the first to be done."""
    for call in reversed(session.serve()):
        session.append(foveal.result(call.id, f"of {call.name}"))
    assert results_of(session.prompt()) == ["of first", "of second", "of third"]
    assert session.serve() == []


def test_results_under_the_ids_of_the_provider_are_taken_in_their_order(session):
    """A host that knows nothing of Foveal's ids answers one call after the other."""
    named = session.serve()[0].id
    for name in ("first", "second", "third"):
        session.append(foveal.result(named, f"of {name}"))
    assert results_of(session.prompt()) == ["of first", "of second", "of third"]


def test_arguments_that_are_no_json_are_returned_as_they_came():
    """The object that a request holds in their place is no call: a tool would run without its arguments."""
    with foveal.Session(foveal.open_store(), "s", model="gpt-5") as session:
        session.append(foveal.user("Close mine."))
        session.append(foveal.assistant("", foveal.ToolCall("c", "close", '{"only_mine": tr')))
        assert [call.arguments for call in session.serve()] == ['{"only_mine": tr']
        assert "invalid_json" in str(session.prompt().request)
