"""The garbage collector looks at what the tests make, and not again and again at the modules of all the frameworks."""

import gc

import pytest

YOUNG = 20_000
"""Objects that are made before the young ones are looked at. With 700, as Python has it, collecting took a ninth of the CPU of a
quarter of the tests, nearly all of it in full collections; some of these are asked for by tests, and stay."""

gc.disable()  # while modules are imported, of which nothing is garbage


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Leave everything that was imported to itself: a collection took four seconds at the end of the suite."""
    gc.freeze()
    gc.set_threshold(YOUNG, 10, 10)
    gc.enable()
