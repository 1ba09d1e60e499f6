"""Policy files: TOML, or YAML where the extra is installed.

YAML is read for plain data only: no tags, no aliases, no key twice, and no more than a person would write.

Older files have two knobs, `auto_compact` and `compact_threshold`. They are read, with a warning that says what to write now.
"""

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import msgspec

from foveal.session.policy import Policy, Summarise, policy_from
from foveal.summary.relevance.weights import Weights, weights_from
from foveal.text.plain_yaml import plain_yaml
from foveal.values.errors import BadPolicy

MOST_BYTES = 1 << 20
"""More than anybody writes by hand; a parser is not asked to read more."""


_OLD_KEYS = ("auto_compact", "compact_threshold")
_EXTENDS = "extends"
_WEIGHTS = "weights"
"""Said once for all stages of a file, so that one line is enough."""


def read_policy(path: str | Path) -> Policy:
    """Read a policy from a file: YAML if its name ends in .yaml or .yml, else TOML."""
    table = _table(Path(path))
    old = {key: table[key] for key in _OLD_KEYS if key in table}
    own = {key: value for key, value in table.items() if key not in (*old, _WEIGHTS)}
    policy = policy_from(own, str(path), weights=lambda name: read_weights(Path(path).parent / name))
    policy = _with_weights(policy, table[_WEIGHTS], path) if _WEIGHTS in table else policy
    return _with_old_keys(policy, old, path) if old else policy


def _table(path: Path, below: tuple[Path, ...] = ()) -> dict[str, Any]:
    """Read the table of a file, laid over the table of the file that it extends."""
    text = _text(path)
    table = plain_yaml(text, path) if path.suffix.lower() in (".yaml", ".yml") else _toml(text, path)
    if _EXTENDS not in table:
        return table
    name = table.pop(_EXTENDS)
    if not isinstance(name, str):
        raise BadPolicy(f"{path}: extends is {name!r}; it is the name of a file, as seen from this one")
    base, chain = path.parent / name, (*below, path.resolve())
    if base.resolve() in chain:
        raise BadPolicy(f"{path}: extends {name!r}, which extends this file in turn")
    return laid_over(_with_whole_paths(_table(base, chain), base.parent), table)


def laid_over(base: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Return the base with the keys of the own table: tables are joined, everything else is replaced."""
    joined = dict(base)
    for key, value in own.items():
        old = joined.get(key)
        both = isinstance(old, Mapping) and isinstance(value, Mapping)
        joined[key] = laid_over(cast("Mapping[str, Any]", old), cast("Mapping[str, Any]", value)) if both else value
    return joined


def _with_whole_paths(table: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return the table with names of weight files that hold from any folder."""

    def whole(one: Mapping[str, Any]) -> dict[str, Any]:
        named = one.get(_WEIGHTS)
        return {**one, _WEIGHTS: str((folder / named).resolve())} if isinstance(named, str) else dict(one)

    stages = table.get("stages")
    listed = cast("list[Any]", stages) if isinstance(stages, list) else []
    found = whole(table)
    if listed:
        found["stages"] = [whole(cast("Mapping[str, Any]", one)) if isinstance(one, Mapping) else one for one in listed]
    return found


def read_weights(path: str | Path) -> Weights:
    """Read weights of the learned score from a file, as `benchmarks/train_weights.py` writes them."""
    return weights_from(_data(Path(path), "weights"), str(path))


def _with_weights(policy: Policy, name: object, path: str | Path) -> Policy:
    """Return the policy with these weights in every stage that has a learned score and none of its own."""
    if not isinstance(name, str):
        raise BadPolicy(f"{path}: weights is {name!r}; it is the name of a file, as seen from this one")
    weights = read_weights(Path(path).parent / name)
    stages = tuple(
        msgspec.structs.replace(stage, weights=stage.weights or weights)
        if isinstance(stage, Summarise) and stage.score == "learned"
        else stage
        for stage in policy.stages
    )
    if stages == policy.stages:
        raise BadPolicy(
            f"{path}: weights = {name!r}, but no stage is a `summarise` with a learned score that lacks them"
        )
    return msgspec.structs.replace(policy, stages=stages)


def _with_old_keys(policy: Policy, old: Mapping[str, object], path: str | Path) -> Policy:
    """Return the policy with the two keys of older files translated to today's."""
    auto = old.get("auto_compact", True)
    if not isinstance(auto, bool):
        raise BadPolicy(f"{path}: auto_compact is {auto!r}; it is true or false")
    trigger = policy.budget.trigger
    for other, value in (("compact_threshold", old.get("compact_threshold")), ("budget.trigger", trigger)):
        if not auto and value is not None:
            raise BadPolicy(f"{path}: auto_compact is false, but {other} = {value} says when to fold; keep one of them")
    if "compact_threshold" in old:
        if trigger is not None:
            raise BadPolicy(
                f"{path}: compact_threshold and budget.trigger = {trigger} say the same; keep budget.trigger"
            )
        return _with_threshold(policy, old["compact_threshold"], path)
    now = (
        "it always holds" if auto else "no prompt is folded before it would be over the limit, without this key as well"
    )
    _warn(f"{path}: auto_compact = {str(auto).lower()} is an old form: {now}. Leave it out.")
    return policy


def _with_threshold(policy: Policy, threshold: object, path: str | Path) -> Policy:
    """Return the policy with an old threshold as a number of tokens: above 1 it was one, else a share of the window."""
    said = f"{path}: compact_threshold is {threshold!r}"
    if isinstance(threshold, bool) or not isinstance(threshold, int | float) or not 0 < threshold < float("inf"):
        raise BadPolicy(f"{said}; it is a number of tokens above 1, or a share of the window from 0 to 1")
    limit = policy.max_context_tokens or policy.budget.limit
    if threshold > 1:
        if threshold != int(threshold):
            raise BadPolicy(f"{said}; above 1 it is a number of tokens, and whole")
        tokens, read_as = int(threshold), "above 1, a number of tokens"
    elif limit is None:
        raise BadPolicy(
            f"{said}, a share of a window that this file does not tell. Write budget.trigger in tokens in its place, "
            "or set max_context_tokens beside it"
        )
    else:
        tokens, read_as = max(2, int(threshold * limit)), f"at most 1, a share of the window of {limit:,} tokens"
    if limit is not None and tokens > limit:
        raise BadPolicy(f"{said}, but the limit is {limit:,} tokens; a fold is due below the limit")
    sendable = policy.budget_for(limit).sendable if limit is not None else tokens
    trigger = min(tokens, sendable)
    target = policy.budget.target
    if isinstance(target, int) and target >= trigger:
        raise BadPolicy(
            f"{said}, but budget.target is {target:,}; a fold goes down to the target and must be due above it"
        )
    _warn(
        f"{path}: compact_threshold = {threshold} is an old form, read as {read_as}. "
        f"Write budget.trigger = {trigger} in its place; or max_context_tokens alone, from which it follows."
    )
    budget = msgspec.structs.replace(policy.budget, trigger=trigger)
    return msgspec.structs.replace(policy, budget=budget)


def _warn(text: str) -> None:
    # Meant for whoever runs the program, so that it is no `DeprecationWarning`, which only developers see.
    warnings.warn(text, UserWarning, stacklevel=4)


def _text(path: Path) -> str:
    try:
        return _data(path, "a policy").decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise BadPolicy(f"{path}: is not UTF-8 text: {error}") from None


def _data(path: Path, what: str) -> bytes:
    try:
        with path.open("rb") as stream:
            data = stream.read(MOST_BYTES + 1)
    except (OSError, ValueError) as error:  # a ValueError for a name with a NUL in it
        raise BadPolicy(f"{path}: cannot be read ({getattr(error, 'strerror', None) or error})") from None
    if len(data) > MOST_BYTES:
        raise BadPolicy(f"{path}: is larger than {MOST_BYTES:,} bytes; is it {what}?")
    return data


def _toml(text: str, path: str | Path) -> dict[str, Any]:
    import tomllib  # noqa: PLC0415 - loaded by the first policy that is read from a file

    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise BadPolicy(f"{path}: is not TOML: {error}") from None
