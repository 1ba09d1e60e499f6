"""Probes: they tell the places that were reached, and change nothing that a function does."""

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

SOURCE = '''
"""A module of many forms."""
from __future__ import annotations
from functools import cache

class Base:
    def name(self):
        return "base"

class Child(Base):
    """A child."""

    @property
    def title(self):
        """A title."""
        return super().name() + "!"

    @cache
    def kept(self, n):
        return n + 1

def outer(start):
    total = start

    def add(n):
        nonlocal total
        total += n
        return total

    return add

def chosen(n):
    match n:
        case 0:
            return "none"
        case _ if n > 9:
            return "many"
    try:
        return "few" if n > 1 else "one"
    finally:
        list(k * 2 for k in [n] if k)

def numbers(n):
    while n:
        yield n
        n -= 1
    else:
        yield 0

negated = lambda value: not value and True
alive = outer(10)
'''


@pytest.fixture
def probed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> tuple[Any, bytearray]:
    """A module with probes, and the bytes that they set."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "scripts"))
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "many_forms.py").write_text(SOURCE)
    module = import_module("many_forms")
    del sys.modules["many_forms"]
    return module, import_module("coverage_probes").put_probes([module])


def test_functions_with_probes_do_what_they_did(probed: tuple[Any, bytearray]) -> None:
    """Methods, properties, closures made before and after, generators, lambdas and matches return what they returned."""
    module, _ = probed
    child = module.Child()
    assert (child.title, child.kept(1), module.alive(5), module.outer(1)(2)) == ("base!", 2, 15, 3)
    assert [module.chosen(n) for n in (0, 1, 2, 10)] == ["none", "one", "few", "many"]
    assert (list(module.numbers(2)), module.negated(0), module.negated(1)) == ([2, 1, 0], True, False)


def test_a_place_is_told_when_it_is_first_reached(probed: tuple[Any, bytearray]) -> None:
    """Each branch sets a byte of its own, once; loading the module set none."""
    module, reached = probed
    assert not any(reached)
    counts = list[int]()
    for n in (1, 1, 2, 0, 10, 10):
        module.chosen(n)
        counts.append(sum(reached))
    assert counts[0] == counts[1] < counts[2] < counts[3] < counts[4] == counts[5] < len(reached)
    module.alive(1)
    assert sum(reached) > counts[-1]
