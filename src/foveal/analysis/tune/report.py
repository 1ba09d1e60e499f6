"""The results of tuning: a table, advice in words, a picture, the recommended policy as a file, one document for programs."""

from collections.abc import Iterator, Mapping
from typing import Any, assert_never

import msgspec

from foveal.analysis.chart import Mark, ScatterChart
from foveal.analysis.measurement.shares import Interval
from foveal.analysis.replay.report import counted
from foveal.analysis.tune.choice import LEAST_SESSIONS, WITHIN, HeldOut
from foveal.analysis.tune.tune import Tried, Tuning
from foveal.session.policy import Policy
from foveal.text.display import visible

HEAD = (
    "policy",
    "cost",
    "95 %",
    "than default",
    "far grounding",
    "95 %",
    "than default",
    "complete",
    "short range",
    "",
)
ALIGN = "lrrrrrrrrl"


def cells(tuning: Tuning, tried: Tried) -> tuple[str, ...]:
    """Return one line under `HEAD`."""
    point, gap, several = tried.point, tried.gap, len(tuning.sessions) > 1
    is_default = tried.variant == tuning.default.variant
    return (
        tried.variant.name,
        f"{point.cost:.3f}",
        _span(tried.cost_interval) if several else "–",
        "–" if is_default else f"{gap.cost:+.3f}",
        f"{point.grounding:.3f}",
        _span(tried.grounding_interval) if several else "–",
        "–" if is_default else f"{gap.grounding:+.3f}",
        f"{point.complete:.3f}",
        f"{point.short_range:.3f}",
        ", ".join(_marks(tuning, tried)),
    )


def _marks(tuning: Tuning, tried: Tried) -> Iterator[str]:
    if tried.variant == tuning.choice.recommended:
        yield "recommended"
    if tried.is_frontier:
        yield "frontier"
    if tried.point.broken:
        yield f"{counted(tried.point.broken, 'call')} refused, over budget or invalid"
    elif not tried.is_sound:
        yield "hides what was just seen"


def purpose(tuning: Tuning) -> Iterator[str]:
    """Yield the sessions, prices and condition that the policy was chosen for."""
    yield (
        f"Chosen by `foveal tune` for {_traffic(tuning)}, at {tuning.budget:,} tokens a call and the prices of "
        f"{tuning.prices}."
    )
    yield f"Asked for: what {_asked(tuning)}. Recommended: {tuning.choice.recommended.name}."


def expected(tuning: Tuning) -> Iterator[str]:
    """Yield the figures to expect."""
    default = tuning.default
    yield f"Expected: {_figures(tuning, tuning.recommended)}. Cost is a ratio to sending the whole history."
    if tuning.recommended != default:
        yield f"The default: {_figures(tuning, default)}."
    if tuning.choice.held_out and tuning.recommended != default:
        yield _held(tuning, tuning.choice.held_out)


def advice(tuning: Tuning) -> list[str]:
    """Return paragraphs of advice."""
    best, default = tuning.of(tuning.choice.best), tuning.default
    held, shorter = tuning.choice.held_out, len(tuning.sessions) - tuning.long
    told = [f"{_traffic(tuning)}; cost at the prices of {tuning.prices}."]
    if shorter:
        told.append(
            f"{counted(shorter, 'session')} of these never took more than {tuning.budget:,} tokens: counted, but little to tell."
        )
    told.append(_verdict(tuning))
    if best != default:
        told.append(f"{best.variant.name}: {_figures(tuning, best)}. The default: {_figures(tuning, default)}.")
    if held is None:
        told.append(
            f"Not cross-validated: with {counted(tuning.long, 'session')} longer than the budget none can be held out. The "
            "figures are of what the choice was made by, and flatter it."
        )
    else:
        told.append(_held(tuning, held))
    return told


def _verdict(tuning: Tuning) -> str:
    best, asked = tuning.choice.best.name, _asked(tuning)
    match tuning.choice.reason:
        case "best":
            return f"Keep the default: of {len(tuning.tried)} policies it {asked}."
        case "few":
            return (
                f"Keep the default. {best} {asked}, but {counted(tuning.long, 'session')} longer than the budget cannot "
                f"tell the two apart; give {LEAST_SESSIONS} or more."
            )
        case "same":
            return (
                f"Keep the default. {best} {asked}, but on sessions that it was not chosen by, no gain can be told "
                "from chance, or it is paid for with a loss. More sessions may show one."
            )
        case "better":
            return f"Take {best}: it {asked}, and that holds on sessions that it was not chosen by."
        case "asked":
            few = f" {counted(tuning.long, 'session')} longer than the budget cannot tell whether that holds on others."
            return f"Take {best}: it {asked}, which the default does not." + few * (tuning.long < LEAST_SESSIONS)
        case _:
            assert_never(tuning.choice.reason)


def _asked(tuning: Tuning) -> str:
    rule = tuning.rule
    if rule.at_most is not None:
        return f"grounds best at a cost of at most {rule.at_most:g}"
    if rule.at_least is not None:
        return f"costs least with a far grounding of at least {rule.at_least:g}"
    return f"grounds best within {100 * WITHIN:g} % of the cheapest that is as good as the default"


def _held(tuning: Tuning, held: HeldOut) -> str:
    gap, picks = held.gap, dict.fromkeys(pick.name for pick in held.picks)
    same = sum(pick == tuning.choice.best for pick in held.picks)
    others = f" ({'; '.join(picks)})" if len(picks) > 1 else ""
    return (
        f"Cross-validated: chosen without a fold and measured on it, the cost is {held.point.cost:.3f} "
        f"({gap.cost:+.3f} to the default, 95 % {_signed(gap.cost_interval)}) and far grounding {held.point.grounding:.3f} "
        f"({gap.grounding:+.3f}, {_signed(gap.grounding_interval)}). Chance alone finds as much in {_percent(held.cost_chance)} "
        f"and {_percent(held.grounding_chance)} of all cases. {same} of {len(held.picks)} folds chose the same "
        f"policy{others}."
    )


def _figures(tuning: Tuning, tried: Tried) -> str:
    several = len(tuning.sessions) > 1
    cost = f" ({_span(tried.cost_interval)})" if several else ""
    grounding = f" ({_span(tried.grounding_interval)})" if several else ""
    return f"cost {tried.point.cost:.3f}{cost}, far grounding {tried.point.grounding:.3f}{grounding}"


def _traffic(tuning: Tuning) -> str:
    return f"{counted(len(tuning.sessions), 'session')}, {counted(tuning.calls, 'model call')}"


def _span(interval: Interval) -> str:
    return f"{interval.low:.2f}–{interval.high:.2f}"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %" if share >= 0.01 else "less than 1 %"


def _signed(interval: Interval) -> str:
    return f"{interval.low:+.3f} to {interval.high:+.3f}"


def document(tuning: Tuning) -> dict[str, Any]:
    """Return every figure, and every session of every policy, so that readers can draw sessions anew."""
    return {
        **msgspec.to_builtins(tuning),
        "policies": {
            tried.variant.name: msgspec.to_builtins(tried.variant.policy(tuning.budget)) for tried in tuning.tried
        },
        "advice": advice(tuning),
    }


_BUDGET = (
    "What is sent stays within `limit` less `reserve`, the room for the reply. All else is as in the default policy."
)


def policy_file(tuning: Tuning) -> str:
    """Return the file. All numbers are written out, so that later changes of the defaults do not change its meaning."""
    said = (f"# {_comment(line)}\n" for line in (*purpose(tuning), *expected(tuning), _BUDGET))
    return "".join(said) + "\n" + _toml(tuning.choice.recommended.policy(tuning.budget))


def _comment(line: str) -> str:
    return " ".join(visible(line).split())


def _toml(policy: Policy) -> str:
    """Return a policy as TOML: budget, stages, arrival and economy, which tuning changes, and nothing else."""
    return "".join(
        (
            f"arrival = {policy.arrival!r}\n",
            f'economy = "{policy.economy}"\n',
            "\n[budget]\n",
            *_lines(msgspec.to_builtins(policy.budget)),
            *("\n[[stages]]\n" + "".join(_lines(msgspec.to_builtins(stage))) for stage in policy.stages),
        )
    )


def _lines(table: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of a table of plain words, numbers and booleans, which JSON writes as TOML does."""
    for key, value in table.items():
        if value is not None:  # TOML has no word for None: an absent key means None
            yield f"{key} = {msgspec.json.encode(value).decode()}\n"


_NAME_CHARS = 60
"""The longest name of a price list in the heading."""


def curve(tuning: Tuning) -> ScatterChart:
    """Return cost against far grounding of all variants as a chart, with the frontier as a line."""
    title = (
        f"{tuning.budget:,} tokens a call, {len(tuning.sessions):,} sessions, prices of {tuning.prices[:_NAME_CHARS]}"
    )
    front = [place for place, tried in enumerate(tuning.tried) if tried.is_frontier]
    front.sort(key=lambda place: tuning.tried[place].point.cost)
    return ScatterChart(
        title=visible(title),
        across="cost, whole history = 1",
        up="far grounding; orange: the default; ringed: recommended; line: the frontier; hollow: hides what was just seen",
        marks=tuple(_mark(tuning, tried) for tried in tuning.tried),
        lines=(tuple(front),) if front else (),
    )


def _mark(tuning: Tuning, tried: Tried) -> Mark:
    point, cost, grounding = tried.point, tried.cost_interval, tried.grounding_interval
    is_named = tried in (tuning.default, tuning.recommended)
    return Mark(
        point.cost,
        point.grounding,
        "best" if tried == tuning.default else "own" if tried.is_frontier else "other",
        visible(tried.variant.name) if is_named or tried.is_frontier else "",  # all names would lie on each other
        is_hollow=not tried.is_sound,
        is_ringed=tried == tuning.recommended,
        x_whisker=(cost.low, cost.high) if is_named else None,
        y_whisker=(grounding.low, grounding.high) if is_named else None,
    )
