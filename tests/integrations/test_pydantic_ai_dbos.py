"""pydantic-ai under DBOS: a durable workflow with the capability. Its packages are `make dropins`' own."""

from pathlib import Path

import pytest

from foveal.testing.adapter_contract import KillContract

from .lengths import of_dropins

pytest.importorskip("dbos", reason="tested by `make dropins`")


@of_dropins
class TestPydanticAIUnderDBOS(KillContract):
    """A workflow that is killed and recovered: steps that ended do not run again, and the replay writes nothing."""

    program = Path(__file__).parent / "programs" / "pydantic_ai_dbos.py"
