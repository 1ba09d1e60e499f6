"""The length of the contracts: whole with FOVEAL_DROPINS=1, as in `make dropins`; else a third, at half of the budget."""

import os

import pytest

from foveal.testing.adapter_contract import BUDGET, STEPS, AdapterContract

IS_WHOLE = bool(os.environ.get("FOVEAL_DROPINS"))
LENGTH = (STEPS, BUDGET) if IS_WHOLE else (STEPS // 3, BUDGET // 2)

of_dropins = pytest.mark.skipif(not IS_WHOLE, reason="many seconds: tested by `make dropins`")


class Contract(AdapterContract):
    """The contract at the length of this run."""

    steps, budget = LENGTH
