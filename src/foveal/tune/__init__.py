"""Which policy suits these sessions: the default with other numbers, chosen by replaying them.

tuning = tune(cases, budget=32_000, prices=price_list("claude-sonnet-4-5"))
print(advice(tuning))
Path("policy.toml").write_text(policy_file(tuning))
"""

from foveal.tune.choosing import Choice
from foveal.tune.curve import curve
from foveal.tune.grid import GRIDS, Grid, Variant
from foveal.tune.held_out import Gap, HeldOut
from foveal.tune.measuring import Cell, Point, price_list
from foveal.tune.picking import Rule
from foveal.tune.policy_file import policy_file
from foveal.tune.tuning import Tried, Tuning, tune
from foveal.tune.words import HEAD, advice, cells, document

__all__ = [
    "GRIDS",
    "HEAD",
    "Cell",
    "Choice",
    "Gap",
    "Grid",
    "HeldOut",
    "Point",
    "Rule",
    "Tried",
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
