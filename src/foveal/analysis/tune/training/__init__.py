"""The score of lines, trained on one's own sessions.

training = train(recordings)
print(advice(training))
Path("weights.json").write_bytes(training.weights.to_json())
"""

from foveal.analysis.tune.training.judging import Figure
from foveal.analysis.tune.training.training import LEAST_SESSIONS, Training, train
from foveal.analysis.tune.training.words import ALIGN, HEAD, advice, cells, document, policy_naming

__all__ = [
    "ALIGN",
    "HEAD",
    "LEAST_SESSIONS",
    "Figure",
    "Training",
    "advice",
    "cells",
    "document",
    "policy_naming",
    "train",
]
