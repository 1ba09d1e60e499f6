"""Tuning: from sessions to the choice of a policy, with all measured figures."""

from collections.abc import Callable, Sequence

import msgspec

from foveal.analysis.measurement.case import Case
from foveal.analysis.measurement.shares import Interval, interval
from foveal.analysis.measurement.suite import longest_first
from foveal.analysis.tune.choice import HeldOutGap, PickRule, TunedChoice, choose, frontier, gap_of, sound
from foveal.analysis.tune.grid import GRIDS, Variant
from foveal.analysis.tune.points import Cell, TunePoint, measure_variants, point_of
from foveal.models.catalogue import ModelFacts
from foveal.values.errors import BadInput


class Tried(msgspec.Struct, frozen=True):
    """One variant over all sessions."""

    variant: Variant
    point: TunePoint
    cost_interval: Interval
    grounding_interval: Interval
    gap: HeldOutGap
    """The difference to the default."""
    is_sound: bool
    """Whether it may be chosen: no more broken calls than the default, and recent clues are shown."""
    is_frontier: bool
    """Whether no other of these is both cheaper and grounds better."""
    cells: tuple[Cell, ...]
    """Session by session."""


class Tuning(msgspec.Struct, frozen=True):
    """The result of tuning: all tried variants in their order, and the choice."""

    budget: int
    prices: str
    """The id of the price list."""
    rule: PickRule
    sessions: tuple[str, ...]
    long: int
    """Sessions that are larger than the budget."""
    calls: int
    folds: int
    tried: tuple[Tried, ...]
    choice: TunedChoice

    def of(self, variant: Variant) -> Tried:
        """Return the figures of a variant."""
        return next(tried for tried in self.tried if tried.variant == variant)

    @property
    def default(self) -> Tried:
        return self.of(Variant())

    @property
    def recommended(self) -> Tried:
        return self.of(self.choice.recommended)


def tune(
    cases: Sequence[Case],
    *,
    budget: int,
    prices: ModelFacts,
    variants: Sequence[Variant] = GRIDS["full"],
    rule: PickRule = PickRule(),  # noqa: B008 - frozen
    folds: int = 3,
    jobs: int = 1,
    tick: Callable[[int], None] = lambda calls: None,
) -> Tuning:
    """Replay the sessions under every variant and choose one. `tick` is called with the number of calls since its last call."""
    if folds < 2:
        raise BadInput(f"folds is {folds}; sessions are dealt into two or more, of which each is held out once")
    variants = tuple(dict.fromkeys((Variant(), *variants)))
    cases = longest_first(cases)
    is_long = [max(case.raw, default=0) > budget for case in cases]
    _check(cases, budget, is_long)
    cells = measure_variants(cases, variants, budget=budget, prices=prices, jobs=jobs, tick=tick)
    choice = choose(cells, rule, ids=[case.id for case in cases], is_long=is_long, folds=folds)
    points = {variant: point_of(found) for variant, found in cells.items()}
    _check_rule(points, choice, rule)
    return Tuning(
        budget=budget,
        prices=prices.id,
        rule=rule,
        sessions=tuple(case.id for case in cases),
        long=sum(is_long),
        calls=sum(len(case.calls) for case in cases),
        folds=len(choice.held_out.picks) if choice.held_out else 1,
        tried=tuple(_tried(cells, points)),
        choice=choice,
    )


def _check(cases: Sequence[Case], budget: int, is_long: Sequence[bool]) -> None:
    if not cases:
        raise BadInput("there is no session with a model call; give recordings of an agent at work")
    if not any(is_long):
        longest = max(max(case.raw, default=0) for case in cases)
        raise BadInput(
            f"nothing is ever folded: the longest of {len(cases):,} session(s) sends {longest:,} tokens in a call, and the "
            f"budget is {budget:,}. Give longer sessions, or a budget well below {longest:,}"
        )
    if not any(need.far for case in cases for need in case.needs):
        raise BadInput(
            f"none of the {len(cases):,} session(s) uses anything that it saw more than a few messages before, so that no "
            "policy can be told from another by what it keeps. Give longer sessions"
        )


def _check_rule(points: dict[Variant, TunePoint], choice: TunedChoice, rule: PickRule) -> None:
    """Raise `BadInput` if no variant meets the condition: a file that does not would be a surprise on the next bill."""
    if rule.holds(points[choice.best]):
        return
    nearest, asked = points[choice.best], f"at a cost of at most {rule.at_most}"
    if rule.at_least is not None:
        asked = f"that grounds at least {rule.at_least}"
    raise BadInput(
        f"none of {len(points)} policies is found {asked}. The nearest is {choice.best.name!r}: cost {nearest.cost:.3f}, "
        f"far grounding {nearest.grounding:.3f}"
    )


def _tried(cells: dict[Variant, tuple[Cell, ...]], points: dict[Variant, TunePoint]) -> list[Tried]:
    able, default = sound(points), cells[Variant()]
    best = frontier(able)
    return [
        Tried(
            variant=variant,
            point=points[variant],
            cost_interval=interval([cell.cost for cell in found]),
            grounding_interval=interval([cell.grounding for cell in found]),
            gap=gap_of(found, default),
            is_sound=variant in able,
            is_frontier=variant in best,
            cells=found,
        )
        for variant, found in cells.items()
    ]
