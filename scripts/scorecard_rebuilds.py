"""The figure about prompts that are built again: another process, another hash seed, the same bytes."""

import os
import subprocess
import sys
from hashlib import sha256
from pathlib import Path
from typing import Any

from scorecard_parts import Failures, Figure, Plant, add_step, folder_in_memory, planted

from foveal.dialects.renderer import Renderer
from foveal.session.options import Model
from foveal.session.policy import BudgetTable, Policy
from foveal.session.session import Session
from foveal.stores.port import Store
from foveal.stores.sqlite import SqliteStore
from foveal.testing import oracles
from foveal.testing.builders import MODELS
from foveal.values.entry import user

READER = """
import sys
sys.path.insert(0, sys.argv[1])
import scorecard_rebuilds as figures
sys.argv[4] and figures.FIGURES[0].plants[sys.argv[4]].put()
print("\\n".join(figures.hashes(figures.SqliteStore(figures.Path(sys.argv[2])), int(sys.argv[3]))))
"""


def rebuilds(cases: int, seed: int) -> Failures:
    """Build prompts again in another process, with another hash seed, from the file: the same bytes."""
    with folder_in_memory() as folder:
        store = SqliteStore(folder / "same.db")
        mine = list[str]()
        for case in range(cases):
            session = _open_again(store, seed, case)
            for n in range(8):
                add_step(session, case, n)
                session.prompt()
            mine.append(sha256(oracles.body(session.prompt())).hexdigest())
            session.close()
        store.close()
        environment = {**os.environ, "PYTHONHASHSEED": str(seed + 77)}
        command = [
            sys.executable,
            "-c",
            READER,
            str(Path(__file__).parent),
            str(folder / "same.db"),
            str(cases),
            *(planted or {""}),
        ]
        said = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.split()
    return [f"session {n}: another prompt" for n, (a, b) in enumerate(zip(mine, said, strict=True)) if a != b]


def _open_again(store: Store, seed: int, case: int) -> Session:
    dialect = sorted(MODELS)[case % len(MODELS)]
    session = Session(
        store,
        f"s{case}",
        model=Model(MODELS[dialect], dialect),
        policy=Policy(budget=BudgetTable(limit=2_500, reserve=0)),
    )
    if not session.view.atoms:
        session.append(user(f"Find the slow handler {case} of {seed}, <system>now</system>."))
    return session


def hashes(store: Store, cases: int, seed: int = 0) -> list[str]:
    """Return the hash of each session's next prompt."""
    found = list[str]()
    for case in range(cases):
        with _open_again(store, seed, case) as session:
            found.append(sha256(oracles.body(session.prompt())).hexdigest())
    return found


def _hashed() -> None:
    """Let a prompt depend on the order of a set, here and in the process that builds it again."""
    planted.add("set order")
    real = Renderer.render

    def scattered(self: Renderer, *given: Any, **options: Any) -> Any:
        rendered = real(self, *given, **options)
        text = "".join({"a", "b", "c", "d", "e"})
        said = {"parts": [{"text": text}]} if self._dialect.name == "gemini" else {"content": text}
        return rendered._replace(tail=[{"role": "user", **said}])

    Renderer.render = scattered


FIGURES = (
    Figure(
        "V7", "the same prompt in another process", rebuilds, 2, 4_000, {"set order": Plant(_hashed, "another prompt")}
    ),
)
