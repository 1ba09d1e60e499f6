"""How long the properties are searched: `HYPOTHESIS_PROFILE=thorough` looks sixty times as far."""

import os

import pytest
from hypothesis import HealthCheck, settings

_SHARED = {
    "deadline": None,  # no test of ours depends on the clock
    "print_blob": True,
    "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
}
settings.register_profile("default", max_examples=20, **_SHARED)
settings.register_profile("thorough", max_examples=1_200, **_SHARED)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A long search takes its time."""
    if os.environ.get("HYPOTHESIS_PROFILE") == "thorough":
        for item in items:
            item.add_marker(pytest.mark.timeout(0))
