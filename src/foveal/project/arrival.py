"""The rule for results on arrival, before any cache has been paid for them: whole, shortened, or by reference."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TypeAlias

import msgspec

from foveal.project.atoms import hint_of
from foveal.project.projection import Arrival, OnArrival
from foveal.project.retention_layers import Layers
from foveal.text import shorten
from foveal.text.shorten.allowance import Allowance
from foveal.text.shorten.head_tail import head_tail
from foveal.text.shorten.reference import as_text, reference
from foveal.values.entry import ToolCall, ToolResult
from foveal.values.errors import BadPolicy
from foveal.values.retention import STARTS, SUMMARY_TOKENS, Retention, is_below, overlay

Renderers: TypeAlias = Mapping[str, Callable[[str], str]]
"""The host's own functions that show a result to the model, by name."""

NO_RENDERERS: Renderers = MappingProxyType({})


def arrival_rule(layers: Layers, count: Callable[[str], int], renderers: Renderers) -> OnArrival:
    """Return the rule by which a projection shows each result on arrival."""

    def on_arrival(result: ToolResult, call: ToolCall | None, ref: str) -> Arrival:
        retention = layers.of(call.name if call else "")
        if result.retention:
            retention = overlay(retention, result.retention)
        if is_below(STARTS[retention.mode], retention.floor):  # two layers that contradict each other: the floor holds
            mode = "full" if retention.floor == "full" else "summary"
            retention = msgspec.structs.replace(retention, mode=mode)
        floor = "full" if retention.mode == "pin" else retention.floor
        shown, failed = None, ""
        if retention.renderer and not is_below("trimmed", floor):  # a result that must stay whole is not rendered
            shown, failed = _rendered(result, ref, renderers, retention.renderer, count)
        if shown is None:
            shown = _start(result, call, ref, retention, count)
            shown = msgspec.structs.replace(shown, because="; ".join(filter(None, (shown.because, failed))))
        return msgspec.structs.replace(shown, floor=floor, ttl_turns=retention.ttl_turns, hint=retention.hint)

    return on_arrival


def _start(
    result: ToolResult, call: ToolCall | None, ref: str, retention: Retention, count: Callable[[str], int]
) -> Arrival:
    tool = call.name if call else "the tool"
    match retention.mode:
        case "summary":
            text = _summary(as_text(result.content), call, ref, retention, count)
            return Arrival(text, "trimmed", f"{tool} keeps a summary") if text else Arrival()
        case "reference":
            whole = as_text(result.content)
            line = reference(result.summary or f"{tool} result", count(whole), ref, hint=retention.hint)
            is_shorter = count(line) < count(whole)
            return Arrival(line, "reference", f"{tool} keeps a reference") if is_shorter else Arrival()
        case _:
            return Arrival()


def _rendered(
    result: ToolResult, ref: str, renderers: Renderers, name: str, count: Callable[[str], int]
) -> tuple[Arrival | None, str]:
    """Return the result as the host's renderer shows it; or None and why it failed: then the rest of the retention holds."""
    if name not in renderers:
        known = ", ".join(sorted(renderers)) or "none"
        raise BadPolicy(f"there is no renderer {name!r}; known: {known}. Give it to the session with renderers=…")
    whole = as_text(result.content)
    try:
        made = renderers[name](whole)
    except Exception as error:  # the result is in the log already, and stays valid if the host's function fails
        return None, f"the renderer {name} failed ({type(error).__name__}: {error})"
    if not isinstance(made, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        return None, f"the renderer {name} gave {type(made).__name__} where text belongs"
    text = f"{made}\n[shown by {name}; ref {ref}]"
    # A rendering that is longer than the original is not used.
    is_shorter = count(text) < count(whole)
    return Arrival(text, "trimmed", f"shown by the renderer {name}") if is_shorter else Arrival(), ""


def _summary(
    text: str, call: ToolCall | None, ref: str, retention: Retention, count: Callable[[str], int]
) -> str | None:
    limit = retention.limit_tokens or SUMMARY_TOKENS
    if retention.limit_characters is not None:
        limit, count = retention.limit_characters, len
    if count(text) <= limit:
        return None
    if retention.head is not None:
        return head_tail(text, limit, count, ref, head_share=retention.head)
    found = shorten.trim(text, hint_of(call), Allowance(limit, count, ref))
    return found[1] if found else None
