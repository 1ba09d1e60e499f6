"""The policies that tuning tries: the default, and variants of it in shares of the budget.

Each is the default with a few numbers changed, so that findings about one hold for its neighbours, and so that a file with
these numbers describes it completely.
"""

from collections.abc import Mapping
from typing import Literal, TypeAlias

import msgspec

from foveal.session.policy import (
    DEFAULT_STAGES,
    ECONOMY_TOKENS,
    BudgetTable,
    BuiltIn,
    Economy,
    Policy,
    Summarise,
    Superseded,
)
from foveal.summary.relevance import Scoring
from foveal.values.budget import RESERVE_MOST, RESERVE_SHARE, TARGET_SHARE

_SUMMARISE = next((stage for stage in DEFAULT_STAGES if isinstance(stage, Summarise)), Summarise())


class Variant(msgspec.Struct, frozen=True):
    """One point of the grid. All other numbers are those of the default policy."""

    target: float = TARGET_SHARE
    """The target of a fold, as a share of the budget."""
    share: float = _SUMMARISE.share
    """The largest share of the budget for the summary."""
    keep: float = _SUMMARISE.keep
    """The share of the newest messages that is not summarised."""
    arrival: float = 1.0
    """Results above this share of the budget are cut before their first prompt."""
    edited: bool = False
    """Whether reads before an edit of the file are folded first, as repeated reads are."""
    score: Scoring = _SUMMARISE.score
    economy: Economy = "whole"
    """Whether folds that pay for themselves are made before the budget forces one."""

    def differs_at(self, budget: int) -> bool:
        """Return whether its economy makes a difference under this budget."""
        tokens = ECONOMY_TOKENS[self.economy]
        return tokens is None or tokens < budget

    @property
    def name(self) -> str:
        """The differences from the default, in words."""
        return ", ".join(_differences(self)) or "default"

    def policy(self, budget: int) -> Policy:
        """Return the policy that sends at most `budget` tokens. The room for the reply comes on top."""
        reserve = min(RESERVE_MOST, int(budget * RESERVE_SHARE))
        table = BudgetTable(limit=budget + reserve, target=self.target, reserve=reserve)
        stages = tuple(map(self._stage, DEFAULT_STAGES))
        return Policy(budget=table, stages=stages, arrival=self.arrival, economy=self.economy)

    def _stage(self, stage: BuiltIn) -> BuiltIn:
        match stage:
            case Summarise(last_resort=False):
                return msgspec.structs.replace(stage, share=self.share, keep=self.keep, score=self.score)
            case Summarise():
                return msgspec.structs.replace(stage, score=self.score)
            case Superseded(edited=False) if self.edited:
                return msgspec.structs.replace(stage, edited=True)
            case _:
                return stage


def _differences(variant: Variant) -> list[str]:
    words = {
        "target": f"target {variant.target:g}",
        "share": f"summary {variant.share:g}",
        "keep": f"keep {variant.keep:g}",
        "arrival": f"arrival {variant.arrival:g}",
        "edited": "edited reads first",
        "score": f"lines by {variant.score}",
        "economy": f"economy {variant.economy}",
    }
    plain = Variant()
    return [said for field, said in words.items() if getattr(variant, field) != getattr(plain, field)]


# The size of the summary moves along the curve and the arrival moves the curve, so these two are crossed. A summary takes its
# share out of the target, so that a deep target goes with a small summary.
_SMALL = (
    Variant(),
    Variant(target=0.5, share=0.3),
    Variant(target=0.8),
    Variant(arrival=0.1),
    Variant(arrival=0.05),
    Variant(target=0.5, share=0.3, arrival=0.05),
    Variant(edited=True),
    Variant(score="recency"),
    Variant(economy="balanced"),
    Variant(economy="lean"),
)
_MORE = (
    Variant(target=0.4, share=0.2),
    Variant(target=0.4, share=0.2, arrival=0.05),
    Variant(target=0.5, share=0.3, arrival=0.1),
    Variant(target=0.8, arrival=0.05),
    Variant(target=0.7),
    Variant(share=0.4),
    Variant(keep=0.2),
    Variant(arrival=0.2),
)

Grid: TypeAlias = Literal["small", "full"]
GRIDS: Mapping[Grid, tuple[Variant, ...]] = {"small": _SMALL, "full": (*_SMALL, *_MORE)}
"""The variants by the name of their grid, the default first."""
