"""Tuning: the policy that suits some sessions, chosen by replaying them under variants of the default.

tuning = tune(cases, budget=32_000, prices=price_list("claude-sonnet-4-5"))
print(advice(tuning))
Path("policy.toml").write_text(policy_file(tuning))
"""

from foveal.analysis.tune.choice import PickRule
from foveal.analysis.tune.grid import GRIDS, Variant
from foveal.analysis.tune.points import price_list
from foveal.analysis.tune.report import advice, curve, document, policy_file
from foveal.analysis.tune.tune import Tuning, tune

__all__ = [
    "GRIDS",
    "PickRule",
    "Tuning",
    "Variant",
    "advice",
    "curve",
    "document",
    "policy_file",
    "price_list",
    "tune",
]
