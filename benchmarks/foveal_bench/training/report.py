"""The report of training: a table, and advice in words."""

from foveal.analysis.measurement.grounding import FAR
from foveal.analysis.measurement.shares import Interval
from foveal_bench.tables import markdown
from foveal_bench.training.judgement import OWN, PACKAGE, RECENCY, Figure
from foveal_bench.training.train import Training

HEAD = ("score", "far grounding", "95 %", "trained here shows more", "95 %")


def cells(training: Training) -> list[tuple[str, ...]]:
    """Return the lines under `HEAD`."""
    return [
        (OWN, *_figure(training.own), "–", "–"),
        (PACKAGE, *_figure(training.shipped), *_gap(training.over_shipped)),
        (RECENCY, *_figure(training.recency), *_gap(training.over_recency)),
    ]


def table(training: Training) -> str:
    """Return the table as Markdown."""
    return markdown(HEAD, cells(training))


def advice(training: Training) -> list[str]:
    """Return paragraphs that say how good the weights are and whether to use them."""
    return [
        f"Far grounding: of the names, paths, numbers and lines that the agent used and had last seen more than {FAR} messages "
        f"before, the share that the prompt still showed, at {training.budget:,} tokens a call.",
        f"{training.learned:,} of {training.sessions:,} sessions are long enough to learn from. {training.judged:,} are larger "
        f"than the budget and were replayed, each in one of {training.folds} folds, by weights trained without that fold. "
        f"Their agents used {training.needed:,} things from far back.",
        _verdict(training),
    ]


def _verdict(training: Training) -> str:
    if training.is_better:
        return "Use them: on sessions held aside they show more than the package's weights and than recency, and not by chance."
    if training.over_shipped.interval.low <= 0:
        worse = "show less than" if training.over_shipped.interval.high < 0 else "cannot be told from"
        return (
            f"Do not use them: on sessions held aside they {worse} the package's weights. Those were trained on more; "
            "more sessions of yours may change that."
        )
    return 'Do not use them: on sessions held aside they cannot be told from recency. `score = "recency"` needs no weights.'


def _figure(figure: Figure) -> tuple[str, str]:
    return f"{figure.value:.3f}", _span(figure.interval, "")


def _gap(figure: Figure) -> tuple[str, str]:
    return f"{figure.value:+.3f}", _span(figure.interval, "+")


def _span(interval: Interval, sign: str) -> str:
    return f"{interval.low:{sign}.3f} to {interval.high:{sign}.3f}"
