"""Every pain's test fails on a build whose protection is taken away: what protects is what we think it is."""

from types import ModuleType

import pytest

from . import test_sizes, test_state, test_wire
from .broken import BUILDS

MODULES: tuple[ModuleType, ...] = (test_sizes, test_state, test_wire)
TESTS = {name: getattr(module, name) for module in MODULES for name in vars(module) if name.startswith("test_pain_")}
OPEN = {name for name, test in TESTS.items() if any(mark.name == "xfail" for mark in getattr(test, "pytestmark", ()))}
"""Pains that no build handles yet: their tests fail on every build."""


@pytest.mark.parametrize("name", BUILDS)
def test_each_pain_fails_on_a_broken_build(name: str) -> None:
    """The pain is felt as soon as the one mechanism is broken that keeps it away."""
    with BUILDS[name]():
        try:
            TESTS[name]()
        except AssertionError:
            return
    pytest.fail(f"{name} passes although {BUILDS[name].__name__}")


def test_every_pain_has_a_test_and_a_broken_build() -> None:
    """None of the 25 is left out, and none is only claimed."""
    numbers = {int(name.split("_")[2]) for name in TESTS if name.split("_")[2].isdigit()}
    assert numbers == set(range(1, 26))
    assert set(TESTS) - OPEN == set(BUILDS)
