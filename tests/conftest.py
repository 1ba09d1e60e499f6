"""The garbage collector looks at what the tests make, and not again and again at the modules of all the frameworks."""

import gc

import pytest

gc.disable()  # while modules are imported, of which nothing is garbage


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Leave everything that was imported to itself: a collection took four seconds at the end of the suite."""
    gc.collect()
    gc.freeze()
    gc.enable()
