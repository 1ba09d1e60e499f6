"""Summarisers by name, for policy files: `openai:gpt-5-mini`, `local:/models/small.gguf`, `mine`."""

from collections.abc import Callable
from difflib import get_close_matches

from foveal.values.errors import BadPolicy
from foveal.writers.anthropic import AnthropicSummariser
from foveal.writers.local import LocalModel
from foveal.writers.openai_chat import OpenAISummariser
from foveal.writers.port import Summariser


def _openai(rest: str) -> Summariser:
    model, at, base_url = rest.partition("@")
    return OpenAISummariser(model, base_url=base_url if at else None)


_KINDS: dict[str, Callable[[str], Summariser]] = {
    "openai": _openai,
    "anthropic": AnthropicSummariser,
    "local": LocalModel,
}
_registered: dict[str, Summariser] = {}


def register(name: str, summariser: Summariser) -> None:
    """Give a summariser (a function, an agent, one with its own options) a name that policies may use.

    A name is given once: a second summariser under it would change the meaning of policies in use.
    """
    if not name or ":" in name or name != name.strip():
        raise BadPolicy(
            f"{name!r} cannot name a summariser: it must not be empty, hold a colon or begin or end in space"
        )
    if _registered.setdefault(name, summariser) is not summariser:
        raise BadPolicy(f"there already is another summariser {name!r}; choose another name")


def find(name: str) -> Summariser:
    """Return the summariser that a policy names; `BadPolicy` with the nearest known name if there is none."""
    if name in _registered:
        return _registered[name]
    kind, colon, rest = name.partition(":")
    if colon and rest and kind in _KINDS:
        return _KINDS[kind](rest)
    known = [*_registered, *(f"{kind}:" for kind in _KINDS)]
    near = get_close_matches(f"{kind}:" if colon else name, known, n=1)
    hint = f" Did you mean {near[0] + rest!r}?" if near and near[0] + rest != name else ""
    forms = "openai:MODEL, openai:MODEL@URL, anthropic:MODEL, local:PATH"
    names = ", ".join(_registered) or "none"
    raise BadPolicy(f"there is no summariser {name!r}; known are {forms}, and the registered: {names}.{hint}")
