"""The rule for results on arrival, before any cache has been paid for them: whole, shortened, or by reference."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

import msgspec

from foveal.project.atoms import hint_of
from foveal.project.projection import Arrival, OnArrival
from foveal.project.retention_layers import Layers
from foveal.text import shorten
from foveal.text.guard import OURS_ONLY, Guard
from foveal.text.shorten.allowance import Allowance
from foveal.text.shorten.artifact import excerpt
from foveal.text.shorten.head_tail import head_tail
from foveal.text.shorten.reference import as_text, result_reference
from foveal.text.stand_in import holds_artifact
from foveal.values.entry import Stored, ToolCall, ToolResult
from foveal.values.errors import BadPolicy
from foveal.values.retention import STARTS, SUMMARY_TOKENS, Retention, is_below, overlay

Renderers: TypeAlias = Mapping[str, Callable[[str], str]]
"""The host's own functions that show a result to the model, by name."""

NO_RENDERERS: Renderers = MappingProxyType({})


def arrival_rule(
    layers: Layers, count: Callable[[str], int], renderers: Renderers, guard: Guard = OURS_ONLY
) -> OnArrival:
    """Return the rule by which a projection shows each result on arrival. The `guard` breaks what shortening made live."""

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
            shown, failed = _rendered(result, ref, _Renderer(retention.renderer, renderers, guard), count)
        if shown is None:
            shown = _start(result, call, retention, Allowance(SUMMARY_TOKENS, count, ref, guard=guard.live))
            shown = msgspec.structs.replace(shown, because="; ".join(filter(None, (shown.because, failed))))
        return msgspec.structs.replace(shown, floor=floor, ttl_turns=retention.ttl_turns, hint=retention.hint)

    return on_arrival


class _Renderer(NamedTuple):
    """A function of the host's by its name, with all that are known."""

    name: str
    known: Renderers
    guard: Guard


def _start(result: ToolResult, call: ToolCall | None, retention: Retention, room: Allowance) -> Arrival:
    tool = call.name if call else "the tool"
    match retention.mode:
        case "summary":
            text = _summary(result, call, retention, room)
            return Arrival(text, "trimmed", f"{tool} keeps a summary") if text else Arrival()
        case "reference":
            whole = as_text(result.content)
            tokens = room.count(whole)
            line = result_reference(result, tool, tokens, room.ref, hint=retention.hint)
            is_shorter = room.count(line) < tokens
            return Arrival(line, "reference", f"{tool} keeps a reference") if is_shorter else Arrival()
        case _:
            return Arrival()


def _rendered(
    result: ToolResult, ref: str, renderer: _Renderer, count: Callable[[str], int]
) -> tuple[Arrival | None, str]:
    """Return the result as the host's renderer shows it; or None and why it failed: then the rest of the retention holds."""
    name = renderer.name
    if name not in renderer.known:
        known = ", ".join(sorted(renderer.known)) or "none"
        raise BadPolicy(f"there is no renderer {name!r}; known: {known}. Give it to the session with renderers=…")
    whole = as_text(result.content)
    try:
        made = renderer.known[name](whole)
    except Exception as error:  # the result is in the log already, and stays valid if the host's function fails
        return None, f"the renderer {name} failed ({type(error).__name__}: {error})"
    if not isinstance(made, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        return None, f"the renderer {name} gave {type(made).__name__} where text belongs"
    # It was given a neutralised text, and may have put two halves of a form together.
    text = f"{renderer.guard.live(made)}\n[shown by {name}; ref {ref}]"
    # A rendering that is longer than the original is not used.
    is_shorter = count(text) < count(whole)
    return Arrival(text, "trimmed", f"shown by the renderer {name}") if is_shorter else Arrival(), ""


def _summary(result: ToolResult, call: ToolCall | None, retention: Retention, room: Allowance) -> str | None:
    room = msgspec.structs.replace(room, tokens=retention.limit_tokens or SUMMARY_TOKENS)
    if retention.limit_characters is not None:
        room = msgspec.structs.replace(room, tokens=retention.limit_characters, count=len)
    if holds_artifact(result):
        return excerpt_of(result, room)
    text = as_text(result.content)
    if room.count(text) <= room.tokens:
        return None
    if retention.head is not None:
        return head_tail(text, room.tokens, room.count, room.ref, head_share=retention.head)
    found = shorten.trim(text, hint_of(call), room)
    return found[1] if found else None


def excerpt_of(result: ToolResult, room: Allowance) -> str:
    """Return a result with artifacts that cannot be read whole as one text, the artifacts by their most telling lines."""
    each = msgspec.structs.replace(room, tokens=room.tokens // len(result.content))
    return "\n".join(
        excerpt(item, each) if isinstance(item, Stored) else _cut(as_text((item,)), each) for item in result.content
    )


def _cut(text: str, room: Allowance) -> str:
    if room.count(text) <= room.tokens:
        return text
    found = shorten.trim(text, "", room)
    return found[1] if found else ""
