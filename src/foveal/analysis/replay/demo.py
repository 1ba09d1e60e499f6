"""The bundled session, and the text about its replay for newcomers."""

from collections.abc import Iterator
from importlib import resources

from foveal.analysis.recordings import Recording, read
from foveal.analysis.replay.replay import Replay
from foveal.analysis.replay.report import Totals, gain, gain_usd, others, percent, totals, usd
from foveal.values.errors import BadRecording

BUDGET = 16_000
_FILE = "demo.jsonl.gz"


def demo_recording() -> Recording:
    """Return the recording: a coding agent at work on a small bookkeeping program, with real tools and outputs."""
    with resources.as_file(resources.files("foveal.analysis.replay") / _FILE) as path:
        for recording in read(path):
            return recording
    raise BadRecording(_FILE, None, "the bundled recording is empty; install Foveal again")


def intro(recording: Recording, replay: Replay) -> str:
    messages, calls = len(recording.steps), len(replay.calls)
    return (
        f"A coding agent makes a failing test suite green and works through a list of issues: {messages} messages, "
        f"{calls} model calls. Replayed as {replay.model} with at most {replay.limit:,} tokens a call."
    )


def comparison(replay: Replay) -> list[tuple[str, str, str, str]]:
    """Return both ways to run the session, side by side, each with a remark on the difference."""
    sums = totals([replay])
    return [
        ("tokens sent", f"{sums.raw_tokens:,}", f"{sums.sent_tokens:,}", gain(sums)),
        ("  read from cache", percent(sums.raw_cached_share), percent(sums.cached_share), ""),
        ("cost", usd(sums.raw_usd), usd(sums.sent_usd), gain_usd(sums)),
        ("largest prompt", f"{sums.largest_raw:,}", f"{sums.largest_sent:,}", f"{replay.limit:,} allowed"),
        ("prefix moves", "0", f"{sums.prefix_moves:,}", "the cache starts anew from there"),
        ("calls refused", "–", f"{sums.refusals:,}", "their tokens are in the left column only" * bool(sums.refusals)),
    ]


def footnote(sums: Totals) -> str:
    return (
        f"Both bills count cache reads and writes at the model's prices, and {usd(sums.output_usd)} for the "
        f"{sums.output_tokens:,} tokens that the model wrote."
    )


def saving_texts(replay: Replay) -> Iterator[tuple[str, str]]:
    """Yield the worth and the description of each of the largest savings."""
    for saving in replay.savings:
        worth = f"{saving.tokens:,} tokens not sent again over {saving.calls} calls"
        yield worth, f"{saving.what[0].upper()}{saving.what[1:]}: {saving.how}. Why: {saving.why}."
    if rest := others(replay, totals([replay])):
        yield f"{rest:,} tokens", "All smaller savings together."
