"""Stack traces: the exception, the outermost and innermost frames, and the user's own frames before those of libraries."""

from foveal.text.lazy_pattern import lazy_pattern
from foveal.text.shorten.allowance import Allowance
from foveal.text.shorten.content_kind import sample
from foveal.text.shorten.line_selection import select_lines
from foveal.text.shorten.logs import collapse, score
from foveal.text.shorten.terminal_text import clean_lines

_FRAME = lazy_pattern(
    r"[ \t|]{0,16}(?:"
    r"File \"[^\"\n]{1,400}\", line \d"  # Python
    r"|at [\w.$<>/@-]{1,200}\([\w.$ ]{1,100}(?::\d+)?\)"  # Java, Kotlin
    r"|at (?:async )?[^\n(]{0,200}\(?[^\n():]{1,300}:\d+:\d+\)?$"  # JavaScript, Rust
    r"|at [^\n]{1,300} in [^\n]{1,300}:line \d"  # C#
    r"|[\w./@$-]{1,300}\.go:\d+ \+0x"  # Go
    r"|from [^\n:]{1,300}:\d+:in "  # Ruby
    r"|#\d+ +(?:0x[0-9a-f]+ in )?[\w:~<>]{1,200} ?\("  # C, PHP
    r")"
)
_RAISED = lazy_pattern(
    r"[ \t|]{0,16}(?:Traceback \(most|Caused by:|Exception in thread|goroutine \d+ \[|panic:|thread '|Uncaught |Unhandled "
    r"|(?:[\w$]{1,80}[.:]{1,2}){0,12}[A-Z]\w{0,60}(?:Error|Exception|Failure|Interrupt|Exit|Warning)\b"
    r"|During handling|The above exception)"
)
_LIBRARY = lazy_pattern(
    r"site-packages|dist-packages|node_modules|/usr/lib|/lib/python|\bat (?:java|javax|sun|jdk|kotlin|scala|org\.junit"
    r"|org\.springframework|org\.apache\.maven|io\.netty|System|Microsoft)\.|node:|<frozen|/rustc/|/pkg/mod/|/usr/local/go|/gems/|\binternal/"
)
_LEAST_FRAMES = 5


def fits(text: str, hint: str) -> bool:
    lines = sample(text)
    frames = sum(_FRAME().match(line) is not None for line in lines)
    return frames >= _LEAST_FRAMES and frames * 5 >= len(lines) and any(_RAISED().match(line) for line in lines)


def shrink(text: str, allowance: Allowance) -> str | None:
    collapsed = collapse(clean_lines(text))
    lines = collapsed.lines
    scores = score(collapsed, allowance)
    frames = [_FRAME().match(line[:1_000]) is not None for line in lines]
    for at, line in enumerate(lines):
        if frames[at]:
            outer = not (at > 0 and _near(frames, at - 1, -1)) or not (at + 1 < len(lines) and _near(frames, at + 1, 1))
            scores[at] += 3.0 * outer + (0.2 if _LIBRARY().search(line[:1_000]) else 3.0)
        elif _RAISED().match(line[:1_000]):
            scores[at] += 12.0
    return select_lines(text, lines, scores, allowance, source_lines=collapsed.source_lines, tails=collapsed.tails)


def _near(frames: list[bool], at: int, step: int) -> bool:
    """Return whether there is a frame here or one line further: Python and Go print a line of code or a call between frames."""
    return frames[at] or (0 <= at + step < len(frames) and frames[at + step])
