"""Summarisers by name."""

import pytest

from foveal.values.errors import BadInput, BadPolicy
from foveal.writers import find, register, registry
from foveal.writers.anthropic import AnthropicSummariser
from foveal.writers.openai_chat import OpenAISummariser


@pytest.fixture(autouse=True)
def clean(monkeypatch):
    monkeypatch.setattr(registry, "_registered", {})


def mine(_):
    return "text"


def test_a_registered_summariser_is_found():
    """Any callable, under the name it was given."""
    register("mine", mine)
    assert find("mine") is mine


def test_a_name_is_given_once():
    """The same again is no harm, another one is."""
    register("mine", mine)
    register("mine", mine)
    with pytest.raises(BadPolicy, match="already is another summariser 'mine'"):
        register("mine", lambda q: "other")


@pytest.mark.parametrize("name", ["", "open:ai", " mine"])
def test_a_name_that_could_be_misread_is_refused(name):
    """A colon tells the kinds that need no registration."""
    with pytest.raises(BadPolicy, match="cannot name a summariser"):
        register(name, mine)


def test_providers_are_found_by_model():
    """The part after the colon is the model; an address may follow."""
    openai, other, claude = (
        find("openai:gpt-5-mini"),
        find("openai:m@http://[::1]:8080/v1"),
        find("anthropic:claude-haiku-4-5"),
    )
    assert isinstance(openai, OpenAISummariser)
    assert repr(openai) == "OpenAIChat('gpt-5-mini', the provider's own endpoint)"
    assert repr(other) == "OpenAIChat('m', http://[::1]:8080/v1)"
    assert isinstance(claude, AnthropicSummariser)
    assert claude.model == "claude-haiku-4-5"


@pytest.mark.parametrize(
    ("name", "hint"),
    [("opanai:gpt-5", "'openai:gpt-5'"), ("antropic:x", "'anthropic:x'"), ("mien", "'mine'"), ("openai", "'openai:'")],
)
def test_an_unknown_name_is_refused_with_the_nearest(name, hint):
    """A slip in a policy file is mended by its error."""
    register("mine", mine)
    with pytest.raises(BadPolicy, match="there is no summariser") as caught:
        find(name)
    assert f"Did you mean {hint}?" in str(caught.value)
    assert "registered: mine" in str(caught.value)


def test_a_local_model_must_be_there(monkeypatch):
    """A path that leads nowhere is told when the policy is read, not when the summary is due."""
    monkeypatch.setattr("foveal.writers.local.find_spec", lambda name: name)
    with pytest.raises(BadInput, match="no such file"):
        find("local:/nowhere/model.gguf")
