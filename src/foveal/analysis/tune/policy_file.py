"""The recommended policy as a TOML file, with comments on its purpose."""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from foveal.analysis.tune.report import expected, purpose
from foveal.analysis.tune.tune import Tuning
from foveal.session.policy import Policy
from foveal.text.display import visible

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
    """Return a policy as TOML: budget, stages and arrival, which tuning changes, and nothing else."""
    return "".join(
        (
            f"arrival = {policy.arrival!r}\n",
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
