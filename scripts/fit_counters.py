"""Measure how far provider token counts lie above ours, and print the tables that `foveal.models.counters` was set from.

    python scripts/fit_counters.py [../shared/data]

**Families.** The recorded sessions carry what the provider billed for each call, but neither the system prompt nor the
tool schemas. So only growth is used: between two successive calls of one session the billed input grew by Δ, and the
messages in between count x tokens in o200k_base. The slope of Δ against x is the factor. It is taken per session as the
median of the slopes of all pairs of steps that lie far enough apart (Theil-Sen), so that the constant part of a step
(framing, unrecorded thinking) cancels and a few odd steps do not matter.

**Gemini.** No recording carries Gemini usage. Gemma publishes a vocabulary of the same lineage, so the table shows
Gemma's count over o200k's for the same text.

**Fallback.** The byte-class estimate of `foveal.models.counters.fallback` against the exact count, over 2 000-character chunks.
"""

import gzip
import json
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from statistics import mean, median
from typing import Any

from foveal.models.counters import counter_for, encoding
from foveal.models.counters.fallback import ByteClassCounter

FRAMING_TOKENS = 4  # per message and per call; the cost of the OpenAI chat format, close enough for a slope
MIN_OUTPUT_TOKENS = 20  # some recorders kept the first streamed value, which is a handful
MIN_STEPS = 8  # fewer points do not make a slope
MIN_SPREAD_TOKENS = 400  # two steps closer than this tell about framing and thinking, not about text
CHUNK_CHARS = 2_000
VOCABULARIES = (
    *("cl100k_base", "gemma3", "llama3", "llama2", "qwen3", "deepseek_v3"),
    *("mistral_v3", "mistral_v2", "glm4", "kimi_k2", "phi4"),
)

Session = dict[str, Any]


def sessions(folder: Path) -> Iterator[tuple[str, Session]]:
    for path in sorted(folder.glob("*.jsonl.gz")):
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            for line in lines:
                yield path.name.removesuffix(".jsonl.gz"), json.loads(line)


def texts(message: dict[str, Any]) -> Iterator[str]:
    content = message.get("content") or ""
    if isinstance(content, list):
        yield from (part.get("text") or "" for part in content)
    else:
        yield content
    for call in message.get("tool_calls") or ():
        yield call["function"]["name"]
        yield call["function"]["arguments"]


def message_tokens(message: dict[str, Any], count: Callable[[str], int]) -> int:
    return FRAMING_TOKENS + sum(count(text) for text in texts(message))


def steps(session: Session, count: Callable[[str], int], *, replies: bool) -> list[tuple[int, int]]:
    """(our tokens, billed growth) between successive calls, leaving out steps that a compaction or a retry moved.

    With `replies` the model's own message is among ours. Without, the provider's output count is taken off the growth
    instead, which removes thinking that no recording shows.
    """
    messages, usage = session["messages"], session["meta"].get("usage") or []
    cuts = [compaction["index"] for compaction in session["meta"].get("compactions") or ()]
    found: list[tuple[int, int]] = []
    for (first, before, output, *_), (last, after, *_) in pairwise(usage):
        if last <= first or after <= before or any(first <= cut <= last for cut in cuts):
            continue
        if not replies and output < MIN_OUTPUT_TOKENS:
            continue
        between = messages[first if replies else first + 1 : last]
        ours = FRAMING_TOKENS + sum(message_tokens(message, count) for message in between)
        found.append((ours, after - before - (0 if replies else output)))
    return found


def slope(points: list[tuple[int, int]]) -> float | None:
    if len(points) < MIN_STEPS:
        return None
    slopes = [
        (y2 - y1) / (x2 - x1)
        for i, (x1, y1) in enumerate(points)
        for x2, y2 in points[i + 1 :]
        if abs(x2 - x1) >= MIN_SPREAD_TOKENS
    ]
    return median(slopes) if len(slopes) >= MIN_STEPS else None


def quantile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def spread(values: list[float]) -> str:
    return (
        f"p5 {quantile(values, 0.05):.3f}  median {median(values):.3f}  "
        f"p95 {quantile(values, 0.95):.3f}  max {max(values):.3f}"
    )


def print_families(folder: Path) -> None:
    count = encoding("o200k_base").count
    by_model: dict[tuple[bool, str], list[float]] = defaultdict(list)
    by_family: dict[tuple[bool, str], list[float]] = defaultdict(list)
    for name, session in sessions(folder):
        for replies in (True, False):
            fitted = slope(steps(session, count, replies=replies))
            if fitted is not None:
                by_model[replies, f"{session['model']} ({name})"].append(fitted)
                by_family[replies, counter_for(session["model"]).family].append(fitted)
    for replies, title in ((True, "all messages"), (False, "results only, output taken off")):
        for table, kind in ((by_model, "model"), (by_family, "family")):
            print(f"billed growth per o200k token, {title}, slopes by session, per {kind}")
            for (which, key), values in sorted(table.items()):
                if which is replies:
                    print(f"  {key:58} sessions {len(values):3}  {spread(values)}")


def chunks(folder: Path) -> Iterator[tuple[str, str]]:
    for name, session in sessions(folder):
        text = "\n".join(text for message in session["messages"] for text in texts(message))
        for start in range(0, len(text), CHUNK_CHARS):
            yield name, text[start : start + CHUNK_CHARS]


def print_vocabularies(folder: Path, names: tuple[str, ...]) -> None:
    """Another vocabulary's count over o200k's, chunk by chunk: every 20th chunk is plenty for a quantile."""
    base = encoding("o200k_base").count
    sample = [text for number, (_, text) in enumerate(chunks(folder)) if number % 20 == 0]
    exact = [max(1, base(text)) for text in sample]
    print(f"tokens of other vocabularies per o200k token, {len(sample)} chunks of {CHUNK_CHARS} characters")
    for name in names:
        count = encoding(name).count
        theirs = [count(text) for text in sample]
        ratios = [ours / of for ours, of in zip(theirs, exact, strict=True)]
        print(f"  {name:14} {spread(ratios)}  sums {sum(theirs) / sum(exact):.3f}")


def print_fallback(folder: Path) -> None:
    base, estimate = encoding("o200k_base").count, ByteClassCounter().count
    below: Counter[str] = Counter()
    total: Counter[str] = Counter()
    ratios: dict[str, list[float]] = defaultdict(list)
    for name, text in chunks(folder):
        exact, guess = base(text), estimate(text)
        total[name] += 1
        below[name] += guess < exact
        ratios[name].append(guess / max(1, exact))
    print(f"fallback estimate over the exact count, chunks of {CHUNK_CHARS} characters")
    for name, values in ratios.items():
        print(
            f"  {name:28} chunks {total[name]:6}  below exact {below[name]:4}  mean {mean(values):.3f}  {spread(values)}"
        )
    every = [value for values in ratios.values() for value in values]
    share = 1 - sum(below.values()) / len(every)
    print(f"  {'all':28} chunks {len(every):6}  at or above exact {share:.4%}  mean {mean(every):.3f}  {spread(every)}")


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[2] / "shared" / "data"
    if not folder.is_dir():
        sys.exit(f"no recorded sessions at {folder}: give the folder as the first argument")
    if encoding("o200k_base").count("a b") != 2 or encoding("o200k_base").name != "o200k_base":
        sys.exit("o200k_base could not be loaded, so there is nothing to measure against")
    print_families(folder)
    print_vocabularies(folder, VOCABULARIES)
    print_fallback(folder)


if __name__ == "__main__":
    main()
