"""The garbage collector looks at what the tests make, and not again and again at the modules of all the frameworks."""

import gc

import pytest

YOUNG = 20_000
"""Objects that are made before the young ones are looked at: with Python's 700, collecting took a ninth of the time of all tests,
nearly all of it in looks at everything that had lived for long."""

gc.disable()  # while modules are imported, of which nothing is garbage


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Leave everything that was imported to itself: a collection took four seconds at the end of the suite."""
    gc.freeze()
    gc.set_threshold(YOUNG, 10, 10)
    gc.enable()
