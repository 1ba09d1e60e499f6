"""Change one place of a module at a time, and see whether its tests notice.

    python scripts/mutants.py --mutants 200 [--seed N]

The modules are those on which promises rest: pairs of calls and results, the fence, the budget, the store's chain and leases. A
mutant swaps a comparison, negates a condition, moves a number by one or forgets a value that is returned. Tests of its room run
against it in a process of their own; one that they pass has survived, and is printed with its place.
"""

import argparse
import ast
import importlib.util
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]
PATIENCE_S = 300.0
_GUARD = tuple(f"tests/text/guard/test_{name}.py" for name in ("neutral_text", "names", "parts", "frame"))
MODULES: dict[str, tuple[str, ...]] = {
    "foveal.text.repair": ("tests/text/test_repair.py", "tests/properties/test_no_log_bricks.py"),
    "foveal.fit.cuts": ("tests/fit/test_cuts.py", "tests/session/test_newest.py"),
    "foveal.text.guard.protection": _GUARD,
    "foveal.text.guard.seals": _GUARD,
    "foveal.values.budget": ("tests/session/test_planner.py", "tests/session/test_compaction.py"),
    "foveal.stores.chain": ("tests/stores/test_contract.py", "tests/stores/sqlite/test_damage.py"),
    "foveal.stores.lease": ("tests/stores/test_lease.py", "tests/stores/sqlite/test_leases.py"),
}
"""Modules with the tests of their rooms, the quickest first."""

_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
_NOTHING = ast.Constant(None)


class Mutant(NamedTuple):
    """A module with one place changed."""

    module: str
    number: int
    where: str


class Mutation(ast.NodeTransformer):
    """Changes the place of a number; counts all places where there is none of that number."""

    def __init__(self, number: int = -1) -> None:
        self._number = number
        self.places: list[tuple[int, str]] = []
        """The line and the kind of each place."""

    def _is_chosen(self, node: ast.AST, kind: str) -> bool:
        self.places.append((getattr(node, "lineno", 0), kind))
        return len(self.places) - 1 == self._number

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        if type(node.ops[0]) in _COMPARISONS and self._is_chosen(node, "comparison"):
            node.ops[0] = _COMPARISONS[type(node.ops[0])]()
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        self.generic_visit(node)
        if self._is_chosen(node, "and, or"):
            node.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        return node

    def visit_If(self, node: ast.If) -> ast.AST:
        self.generic_visit(node)
        if self._is_chosen(node, "condition"):
            node.test = ast.UnaryOp(ast.Not(), node.test)
        return node

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if type(node.value) is int and self._is_chosen(node, "number"):
            return ast.Constant(node.value + 1)
        return node

    def visit_Return(self, node: ast.Return) -> ast.AST:
        self.generic_visit(node)
        if node.value is not None and self._is_chosen(node, "returned value"):
            node.value = _NOTHING
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        if node.value is not None:
            node.value = self.visit(node.value)
        return node


def mutants() -> Iterator[Mutant]:
    """Yield all mutants of all modules."""
    for module in MODULES:
        counted = Mutation()
        counted.visit(ast.parse(_source(module)))
        for number, (line, kind) in enumerate(counted.places):
            yield Mutant(module, number, f"{module}, line {line}, {kind}")


def _source(module: str) -> str:
    return (ROOT / "src" / f"{module.replace('.', '/')}.py").read_text()


class _Changed(MetaPathFinder, Loader):
    """Finds one module, and loads its mutant."""

    def __init__(self, module: str, number: int) -> None:
        self._module, self._number = module, number

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        """Return the spec of the module that is changed."""
        if fullname != self._module:
            return None
        place = str(ROOT / "src" / f"{fullname.replace('.', '/')}.py")
        return importlib.util.spec_from_loader(fullname, self, origin=place)

    def exec_module(self, module: ModuleType) -> None:
        """Run the changed source."""
        tree = ast.fix_missing_locations(Mutation(self._number).visit(ast.parse(_source(self._module))))
        exec(compile(tree, f"<mutant of {self._module}>", "exec"), module.__dict__)  # noqa: S102 - our own source


def test(module: str, number: int, tests: list[str]) -> int:
    """Run tests against a mutant in this process, and return the status of pytest."""
    import pytest  # noqa: PLC0415 - for tests alone

    sys.meta_path.insert(0, _Changed(module, number))
    return int(pytest.main(["-x", "-q", "--no-header", "-p", "no:cacheprovider", "-p", "no:randomly", *tests]))


def is_noticed(module: str, number: int, tests: tuple[str, ...]) -> bool:
    """Return whether tests fail with a mutant. One that hangs is noticed."""
    command = [sys.executable, __file__, "--test", module, str(number), *tests]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    except subprocess.TimeoutExpired:
        return True
    return done.returncode != 0


def survivors(cases: int, seed: int) -> tuple[int, list[str]]:
    """Try so many mutants; return how many were tried, and the places of those that no test noticed."""
    every = list(mutants())
    chosen = random.Random(seed).sample(every, min(cases, len(every)))
    unchanged = {one.module: MODULES[one.module] for one in chosen}
    if broken := [module for module, tests in unchanged.items() if is_noticed(module, -1, tests)]:
        raise SystemExit(f"the tests of {', '.join(broken)} fail without a change")
    return len(chosen), [one.where for one in chosen if not is_noticed(one.module, one.number, MODULES[one.module])]


def main() -> int:
    if sys.argv[1:2] == ["--test"]:
        return test(sys.argv[2], int(sys.argv[3]), sys.argv[4:])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mutants", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    began = time.monotonic()
    tried, left = survivors(given.mutants, given.seed)
    print("\n".join(left))
    print(f"{tried} mutants, {len(left)} survived, {time.monotonic() - began:.0f} s")
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main())
