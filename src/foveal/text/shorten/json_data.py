"""JSON and JSON Lines: the shape of the data, samples of its arrays, outliers, identifiers, errors.

The text is decoded and previewed: arrays by their first, last and outstanding items, long strings by their ends, deep parts
by their keys. The limits of the preview are tried from generous to narrow. A preview stops as soon as it is too long, so
that each try costs in proportion to the allowance, not to the data. Numbers are shown as they were written.
"""

import re
from collections.abc import Callable
from typing import Any, cast

import msgspec

from foveal.text.guard.seals import plain, sealable, sealed
from foveal.text.shorten import prose
from foveal.text.shorten.allowance import Allowance
from foveal.text.shorten.json_preview import ItemScores, JsonPreview, PreviewLimits
from foveal.text.shorten.json_sample import decode_sampled
from foveal.text.shorten.line_selection import density, only_if_shorter

_OPENING = re.compile(r"[ \t]{0,40}[\[{]\s{0,200}(?:[\[{\]}\"-]|\d|true|false|null)")
_PREAMBLE_LINES = 12
_PREAMBLE_CHARS = 2_000
"""Tools print the command, its time and its exit code before its output."""
_MAIN_SHARE = 0.5
_MAIN_LINES = 5

_LADDER: dict[str, tuple[int, ...]] = {
    "depth": (16, 16, 14, 14, 12, 12, 12, 10, 10, 8, 8, 7, 6, 5, 4, 3, 2),
    "items": (400, 200, 100, 60, 40, 28, 20, 14, 10, 7, 5, 4, 3, 2, 2, 1, 1),
    "chars": (8_000, 4_000, 2_000, 1_000, 600, 400, 280, 200, 140, 100, 80, 60, 40, 30, 20, 16, 12),
    "keys": (400, 300, 200, 120, 80, 60, 40, 30, 25, 20, 16, 12, 10, 8, 6, 4, 3),
}
"""Limits from generous to narrow, about a factor of 1.4 apart, all narrowing together."""
_TRIES = 16


def fits(text: str, hint: str) -> bool:
    return _start(text) is not None


def shrink(text: str, allowance: Allowance) -> str | None:
    start = _start(text)
    if start is None:
        return None
    body = text[start:]
    value = decode_sampled(body)
    if not isinstance(value, list | dict):
        return None
    chars = int(allowance.tokens * density(text, allowance))
    main = _main_text(value, len(body))
    if main is not None:
        return _with_main(text, text[:start], value, main, allowance)
    shown = _fitting(text[:start], value, allowance, chars)
    return only_if_shorter(text, shown, allowance)


def _start(text: str) -> int | None:
    """Return the place where the JSON begins: at once, or after a few lines of another kind."""
    at = 0
    for _ in range(_PREAMBLE_LINES):
        if _OPENING.match(text, at):
            return at
        at = text.find("\n", at, _PREAMBLE_CHARS) + 1
        if at == 0:
            return None
    return None


def _fitting(preamble: str, value: Any, allowance: Allowance, chars: int) -> str | None:
    """Return the most generous preview that fits."""
    memory: ItemScores = {}

    def drawn(limits: PreviewLimits) -> str | None:
        preview = JsonPreview(limits, allowance.focus, most=chars * 2, memory=memory)
        data = preview.render(value)
        if data is None:
            return None
        note = sealed(f"[{preview.left_out:,} JSON items left out, {preview.cut:,} texts cut; ref {allowance.ref}]")
        shown = "\n".join(filter(None, (note, preamble.rstrip("\n"), data)))
        return shown if allowance.count(plain(shown)) <= allowance.tokens else None

    for rung in range(len(_LADDER["items"])):
        rungs = dict.fromkeys(_LADDER, rung)
        shown = drawn(_limits(rungs))
        if shown is not None:
            return _widened(shown, rungs, drawn)
    return None


def _widened(shown: str, rungs: dict[str, int], drawn: Callable[[PreviewLimits], str | None]) -> str:
    """Return the preview with single limits raised again, in turn, as long as it fits."""
    open_ = [name for name, rung in rungs.items() if rung > 0]
    for _ in range(_TRIES):
        if not open_:
            break
        name = open_.pop(0)
        wider = drawn(_limits({**rungs, name: rungs[name] - 1}))
        if wider is not None:
            rungs[name] -= 1
            shown = max(shown, wider, key=len)
            open_ += [name] if rungs[name] > 0 else []
    return shown


def _limits(rungs: dict[str, int]) -> PreviewLimits:
    return PreviewLimits(**{name: _LADDER[name][rung] for name, rung in rungs.items()})


def _main_text(value: Any, size: int) -> str | None:
    """Return the one long text that makes up most of the data, if there is one: a report, a page, a command's output."""
    at: Any = value
    for _ in range(6):
        if isinstance(at, str):
            break
        values = cast("list[Any]", at if isinstance(at, list) else list(at.values()) if isinstance(at, dict) else [])
        strings = [item for item in values[:200] if isinstance(item, str)]
        longest = max(strings, key=len, default="")
        if len(longest) >= size * _MAIN_SHARE:
            at = longest
            break
        holders: list[Any] = [item for item in values[:200] if isinstance(item, list | dict)]
        if len(holders) != 1:
            return None
        at = holders[0]
    return at if isinstance(at, str) and at.count("\n") >= _MAIN_LINES and len(at) >= size * _MAIN_SHARE else None


def _with_main(text: str, preamble: str, value: Any, main: str, allowance: Allowance) -> str | None:
    """Return a preview of the data, and below it the best lines of its main text."""
    frame = msgspec.structs.replace(allowance, tokens=allowance.tokens // 4)
    preview = _fitting(preamble, value, frame, int(frame.tokens * density(text, frame)))
    if preview is None:
        return None
    rest = msgspec.structs.replace(allowance, tokens=allowance.tokens - allowance.count(plain(preview)) - 16)
    lines = prose.shrink(sealable(main), rest) if rest.tokens > 0 else None
    return only_if_shorter(
        text, preview if lines is None else f"{preview}\n[the longest text in it:]\n{lines}", allowance
    )
