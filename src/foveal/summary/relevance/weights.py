"""Weights of the score: for names and for lines, a small ensemble of trees over their features. Plain data.

A file of weights names the features that it was trained on. Trees refer to features by their place, so that weights for
other features would mean nothing; they are refused. Trees that could keep the score from ending or from being a number are
refused as well.
"""

import hashlib
from collections.abc import Iterator, Sequence
from math import isfinite
from typing import Literal, TypeAlias, final

import msgspec

from foveal.values.errors import BadPolicy

Scoring: TypeAlias = Literal["learned", "recency"]
"""How lines are scored: by the weights, or by how long ago they were seen."""

NAME_FEATURES = (
    "age", "span", "count", "uses", "use_age", "kind", "chars", "asked", "lines", "kin_shown", "source", "tool", "block_lines",
    "form", "near_shown", "file_count", "file_age", "edits", "edited_after", "file_shown",
)  # fmt: skip
LINE_FEATURES = (
    "age", "chars", "count", "uses", "use_age", "source", "tool", "at", "from_end", "block_lines", "form", "indent",
    "names", "fresh_names", "most_uses", "last_use_age", "best_count", "asked", "file_count", "file_age", "edits",
    "edited_after", "file_shown",
)  # fmt: skip

BLOCK_FEATURES = ("source", "tool", "block_lines", "file_count", "file_age", "edits", "edited_after", "file_shown")
"""Features that a name or a line has from its block."""

MOST_LEAVES = 2_000
"""Most leaves for names, and for lines: a dozen times those of the package, more than ever helped. It bounds the time of
scoring."""
MOST_SUM = 500.0
"""Largest sum of the largest leaves of all trees: the exponential of more than 700 is no number any more."""

_HASH = "sha256:"
_DIGITS = 16


class Tree(msgspec.Struct, frozen=True, array_like=True):
    """A tree. A node is a feature, a threshold, and the next nodes up to it and above it; numbers below 0 are leaves, from
    -1 on."""

    nodes: tuple[tuple[int, float, int, int], ...]
    leaves: tuple[float, ...]


Trees: TypeAlias = tuple[Tree, ...]


class _Features(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    names: tuple[str, ...]
    lines: tuple[str, ...]


class _WeightsFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The content of a file of weights."""

    features: _Features
    names: Trees
    lines: Trees


@final
class Weights:
    """Trees that have been checked.

    Policies and logs hold a hash in place of the weights. Folds made by them are in the log and are never chosen again, so
    a policy from a log may hold weights of which only the hash is known.
    """

    __slots__ = ("_trees", "name")

    def __init__(self, names: Trees, lines: Trees) -> None:
        for what, trees, features in (("names", names, NAME_FEATURES), ("lines", lines, LINE_FEATURES)):
            if wrong := next(_problems(trees, len(features)), ""):
                raise BadPolicy(f"weights: {what}{wrong}")
        self._trees: tuple[Trees, Trees] | None = (names, lines)
        self.name = f"{_HASH}{hashlib.sha256(self.to_json()).hexdigest()[:_DIGITS]}"

    @classmethod
    def logged(cls, name: str) -> "Weights | None":
        """Return the weights that have this name in a log; None if it is no such name."""
        digits = name.removeprefix(_HASH)
        if digits == name or len(digits) != _DIGITS or not set(digits) <= set("0123456789abcdef"):
            return None
        weights = object.__new__(cls)
        weights._trees, weights.name = None, name
        return weights

    @property
    def names(self) -> Trees:
        return self._read()[0]

    @property
    def lines(self) -> Trees:
        return self._read()[1]

    def to_json(self) -> bytes:
        """Return the content of a file that `weights_from` reads."""
        return msgspec.json.encode(_WeightsFile(_Features(NAME_FEATURES, LINE_FEATURES), *self._read())) + b"\n"

    def _read(self) -> tuple[Trees, Trees]:
        if self._trees is None:
            raise BadPolicy(
                f"the weights {self.name} are not here: a log knows them by their hash alone. Fold this session where it is "
                "used, with the policy that names their file"
            )
        return self._trees

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Weights) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return self.name


def weights_from(data: bytes, source: str) -> Weights:
    """Return the weights in the content of a file; raise `BadPolicy` with the place of an error."""
    try:
        found = msgspec.json.decode(data, type=_WeightsFile)
        _check_features("names", found.features.names, NAME_FEATURES)
        _check_features("lines", found.features.lines, LINE_FEATURES)
        return Weights(found.names, found.lines)
    except (msgspec.ValidationError, msgspec.DecodeError, RecursionError) as error:
        raise BadPolicy(f"{source}: no weights as `benchmarks/train_weights.py` writes them: {error}") from None
    except BadPolicy as error:
        raise BadPolicy(f"{source}: {error}") from None


def _check_features(what: str, features: Sequence[str], known: Sequence[str]) -> None:
    if tuple(features) != tuple(known):
        at = next(
            (i for i, (a, b) in enumerate(zip(features, known, strict=False)) if a != b), min(len(features), len(known))
        )
        theirs, ours = (one[at] if at < len(one) else "none" for one in (features, known))
        raise BadPolicy(
            f"weights for other features: of {what}, feature {at} is {theirs[:60]!r}, and here it is {ours!r}. "
            "Train them again with this version: benchmarks/train_weights.py"
        )


def _problems(trees: Trees, features: int) -> Iterator[str]:
    """Yield the problems of the trees, each with its place."""
    if (leaves := sum(len(tree.leaves) for tree in trees)) > MOST_LEAVES:
        yield f": its trees have {leaves:,} leaves; {MOST_LEAVES:,} at most"
    for number, tree in enumerate(trees):
        yield from (f"[{number}]{said}" for said in _tree_problems(tree, features))
    if (total := sum(max(map(abs, tree.leaves)) for tree in trees)) > MOST_SUM:
        yield f": its leaves add up to {total:g}; to {MOST_SUM:g} at most, or a chance is no number"


def _tree_problems(tree: Tree, features: int) -> Iterator[str]:
    nodes, leaves = len(tree.nodes), len(tree.leaves)
    if leaves != nodes + 1:
        yield f" has {nodes:,} nodes and {leaves:,} leaves; there is one leaf more than nodes"
    if not all(map(isfinite, tree.leaves)):
        yield " has a leaf that is no finite number"
    for at, (feature, threshold, *_) in enumerate(tree.nodes):
        if not 0 <= feature < features:
            yield f": node {at} looks at feature {feature}; there are {features}"
        if not isfinite(threshold):
            yield f": node {at} has the threshold {threshold}; it is a finite number"
    # Every node and every leaf is reached once, and later nodes only from earlier ones: no way leads round in a circle.
    following = [(place, at) for at, (*_, low, high) in enumerate(tree.nodes) for place in (low, high)]
    wrong = next((one for one in following if not (one[1] < one[0] < nodes or -leaves <= one[0] < 0)), None)
    if wrong:
        yield f": node {wrong[1]} leads to {wrong[0]}; it leads to later nodes or to leaves, -1 to -{leaves}"
    elif len({place for place, _ in following}) < len(following):
        yield ": two ways lead to the same place; every node and leaf follows on one other"
