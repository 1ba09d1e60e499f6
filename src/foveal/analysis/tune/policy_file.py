"""The recommended policy as a TOML file that says what it was chosen for."""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from foveal.analysis.tune.tuning import Tuning
from foveal.analysis.tune.words import expected, purpose
from foveal.session.policy import Policy
from foveal.text.display import visible

_BUDGET = (
    "What is sent stays within `limit` less `reserve`, the room for the reply. All else is as in the default policy."
)


def policy_file(tuning: Tuning) -> str:
    """All numbers are written out: the file means the same when the defaults have moved on."""
    said = (f"# {_comment(line)}\n" for line in (*purpose(tuning), *expected(tuning), _BUDGET))
    return "".join(said) + "\n" + _toml(tuning.choice.recommended.policy(tuning.budget))


def _comment(line: str) -> str:
    return " ".join(visible(line).split())


def _toml(policy: Policy) -> str:
    """A policy of a budget, stages and an arrival, which is all that tuning changes."""
    return "".join(
        (
            f"arrival = {policy.arrival!r}\n",
            "\n[budget]\n",
            *_lines(msgspec.to_builtins(policy.budget)),
            *("\n[[stages]]\n" + "".join(_lines(msgspec.to_builtins(stage))) for stage in policy.stages),
        )
    )


def _lines(table: Mapping[str, Any]) -> Iterator[str]:
    """Keys of plain words; values are texts of plain words, numbers, and true or false, which JSON writes as TOML does."""
    for key, value in table.items():
        if value is not None:  # there is no word for it in TOML: what is left out is none
            yield f"{key} = {msgspec.json.encode(value).decode()}\n"
