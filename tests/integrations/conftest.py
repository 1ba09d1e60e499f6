"""An agent for tests beside the contracts."""

from pathlib import Path
from typing import Any

import pytest

from foveal.testing.adapter_contract import DONE, AdapterContract
from foveal.testing.provider import Read, Step


@pytest.fixture
def agent(tmp_path: Path) -> Any:
    """The facts of an agent whose model reads five files."""
    steps = [Step(f"Step {number}.", do=(Read(f"f{number}.py"),)) for number in range(5)]
    made = AdapterContract().agent(tmp_path, *steps, Step(DONE))
    yield made
    made.close()
