"""All policies that the benchmark knows by name, without other engines."""

from foveal.analysis.measurement.case import Runner
from foveal.values.errors import BadInput
from foveal_bench.ablations import PARTS
from foveal_bench.baselines import BASELINES
from foveal_bench.oracle import oracle

BUDGETS = (8_000, 16_000, 32_000, 64_000, 128_000)
RUNNERS: dict[str, Runner] = {**BASELINES, **PARTS, "oracle": oracle}


def own_runner(name: str) -> Runner:
    """Return the runner of a policy; raise `BadInput`, which lists all of them, if there is none of this name."""
    if name not in RUNNERS:
        raise BadInput(f"there is no policy {name!r}; known: {'; '.join(RUNNERS)}")
    return RUNNERS[name]
