"""Tuning: the policy that suits some sessions, chosen by replaying them under variants of the default.

tuning = tune(cases, budget=32_000, prices=price_list("claude-sonnet-4-5"))
print(advice(tuning))
Path("policy.toml").write_text(policy_file(tuning))
"""

from foveal.analysis.tune.choice import TunedChoice
from foveal.analysis.tune.cross_validation import HeldOut, HeldOutGap
from foveal.analysis.tune.grid import GRIDS, Grid, Variant
from foveal.analysis.tune.pick_rule import PickRule
from foveal.analysis.tune.points import Cell, TunePoint, price_list
from foveal.analysis.tune.policy_file import policy_file
from foveal.analysis.tune.report import HEAD, advice, cells, curve, document
from foveal.analysis.tune.tune import Tried, Tuning, tune

__all__ = [
    "GRIDS",
    "HEAD",
    "Cell",
    "Grid",
    "HeldOut",
    "HeldOutGap",
    "PickRule",
    "Tried",
    "TunePoint",
    "TunedChoice",
    "Tuning",
    "Variant",
    "advice",
    "cells",
    "curve",
    "document",
    "policy_file",
    "price_list",
    "tune",
]
