"""The host that a model of a chat is asked at: a conversation goes to another one only if somebody says so."""

import os
from urllib.parse import urlsplit

from foveal.agent.model_port import ModelChoice
from foveal.values.errors import BadInput

_HOSTS = {
    "openai": ("OPENAI_BASE_URL", "api.openai.com"),
    "openai-responses": ("OPENAI_BASE_URL", "api.openai.com"),
    "anthropic": ("ANTHROPIC_BASE_URL", "api.anthropic.com"),
    "google": ("GOOGLE_GEMINI_BASE_URL", "generativelanguage.googleapis.com"),
}
"""The variable from which the SDK of a provider reads an address, and the host that it asks without one."""


def host_of(choice: ModelChoice) -> str:
    """Return the host that a model is asked at, with its port."""
    variable, usual = _HOSTS[choice.provider_name]
    address = choice.base_url or os.environ.get(variable, "")
    return urlsplit(address if "//" in address else f"//{address}").netloc.rpartition("@")[2] or usual


def with_host(choice: ModelChoice) -> str:
    """Return the name of a model with its host."""
    return f"{choice.model} at {host_of(choice)}"


def chosen_model(said: str, before: ModelChoice) -> ModelChoice:
    """Return the model that somebody names in place of another one. `BadInput` for a bare name at another host."""
    choice = ModelChoice.of(said)
    host, old = host_of(choice), host_of(before)
    if host != old and not choice.provider:
        ways = [f"/model {choice.provider_name}:{said} sends the conversation to {host}"]
        ways += [f"/model {before.provider_name}:{said}@{before.base_url} asks {old}"] if before.base_url else []
        told = f"{said} is at {host}, and this conversation is with {before.model} at {old}; nothing was changed."
        raise BadInput("\n".join([f"{told} Say which one you mean:", *ways]))
    return choice
