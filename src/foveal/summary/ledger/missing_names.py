"""Identifiers of the ledger that a text lacks."""

import posixpath
from collections.abc import Iterator

from foveal.summary.ledger.items import Ledger
from foveal.summary.ledger.sections import rank_file, rank_name

_LEAST_ACTS = 2
"""A name counts as needed if the model used it in this many calls, or if it has a label."""


def identifiers(ledger: Ledger) -> frozenset[str]:
    """Return the identifiers that a summary must hold: changed files, open failures, running children, names that the model
    used."""
    return frozenset(_needed(ledger))


def missing(ledger: Ledger, text: str) -> list[str]:
    """Return the identifiers that the text lacks, the most useful first. A path counts as present if its directory and its
    name are."""
    return [one for one in dict.fromkeys(_needed(ledger)) if one not in text and not _stands_apart(one, text)]


def _needed(ledger: Ledger) -> Iterator[str]:
    yield from (child.id for child in sorted(ledger.children, key=lambda one: (-one.seq, one.id)))
    broken = sorted(ledger.failures, key=lambda one: (-one.seq, one.name))
    yield from (failure.name for failure in broken if not failure.resolved)
    changed = [one for one in ledger.files if one.change]
    yield from (one.path for one in sorted(changed, key=lambda one: (*(-x for x in rank_file(one)), one.path)))
    names = sorted(ledger.names, key=lambda one: (*(-x for x in rank_name(one)), one.value))
    yield from (name.value for name in names if name.acts >= _LEAST_ACTS or name.label)


def _stands_apart(path: str, text: str) -> bool:
    directory, name = posixpath.split(path)
    return bool(directory) and f"{directory}/:" in text and name in text
