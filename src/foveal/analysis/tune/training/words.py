"""What came of training, as a table, in words, as one document for programs, and as a policy that names the weights."""

import json
from typing import Any

import msgspec

from foveal.analysis.replay.grounding import FAR
from foveal.analysis.replay.pooling import Interval
from foveal.analysis.tune.training.judging import OWN, PACKAGE, RECENCY, Figure
from foveal.analysis.tune.training.training import Training
from foveal.values.errors import BadInput

HEAD = ("score", "far grounding", "95 %", "trained here shows more", "95 %")
ALIGN = "lrrrr"


def cells(training: Training) -> list[tuple[str, ...]]:
    """Lines under `HEAD`."""
    return [
        (OWN, *_figure(training.own), "–", "–"),
        (PACKAGE, *_figure(training.shipped), *_gap(training.over_shipped)),
        (RECENCY, *_figure(training.recency), *_gap(training.over_recency)),
    ]


def advice(training: Training) -> list[str]:
    """What to make of it: paragraphs."""
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


def policy_naming(training: Training, file: str) -> str:
    """A policy whose learned scores are by the weights in this file, as seen from the policy's own."""
    own, package, recency = (one.value for one in (training.own, training.shipped, training.recency))
    figures = (
        f"far grounding {own:.3f}, the package's {package:.3f}, recency {recency:.3f}, at {training.budget:,} tokens"
    )
    said = (f"# {line}\n" for line in (f"By `foveal tune --train`: {figures}.", _verdict(training)))
    return "".join(said) + f"weights = {_toml_text(file)}\n"


def _toml_text(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise BadInput(f"{text!r} is no text that a policy could name; choose another name for the weights") from None
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def document(training: Training) -> dict[str, Any]:
    """Every figure."""
    return {**msgspec.to_builtins(training, enc_hook=str), "is_better": training.is_better, "advice": advice(training)}


def _figure(figure: Figure) -> tuple[str, str]:
    return f"{figure.value:.3f}", _span(figure.interval, "")


def _gap(figure: Figure) -> tuple[str, str]:
    return f"{figure.value:+.3f}", _span(figure.interval, "+")


def _span(interval: Interval, sign: str) -> str:
    return f"{interval.low:{sign}.3f} to {interval.high:{sign}.3f}"
