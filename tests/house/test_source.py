"""Rules that keep the source enterable: one name for one thing, prose that can be read once, imports that can be seen.

Every rule is shown a planted fault, so that a rule that sees nothing is noticed. Lists of exceptions may only shrink.
"""

import ast
import re
import tomllib

import pytest

from .rules import (
    PACKAGE,
    ROOT,
    Source,
    concrete_stores,
    imports_in_functions,
    own_ancestors,
    riddles,
    sources,
    types_defined_twice,
    what_clauses,
)

MODULES = sources()
MOST_WHAT_CLAUSES = 3.0
"""In 1 000 words of prose. Six well-kept packages have 0.2 to 1.4."""
BANNED_NAMES = re.compile(r"Manager|Handler|Helper|Util|Base|Impl|Info")


def test_every_module_is_in_a_room():
    """Nothing lies loose beside the rooms, and the import contract names all of them."""
    assert sorted(path.name for path in PACKAGE.iterdir() if path.is_file()) == [
        "__init__.py",
        "__main__.py",
        "py.typed",
    ]
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    layers = next(contract["layers"] for contract in settings["contracts"] if contract["type"] == "layers")
    named = {room.strip().removeprefix("foveal.") for layer in layers for room in re.split(r"[|:]", layer)}
    assert {module.room for module in MODULES} - {"", "__main__"} == named
    assert len(layers) == 8


def test_tests_mirror_the_rooms():
    """A newcomer finds the tests of a room under the room's own name."""
    beside = {"benchmarks", "data", "docs", "examples", "golden", "house", "pains", "properties", "wire"}
    folders = {path.name for path in (ROOT / "tests").iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert folders - beside <= {module.room for module in MODULES}


def test_a_public_type_has_one_definition():
    """One name, one type, in the whole package."""
    assert types_defined_twice(MODULES) == {}


def test_two_definitions_of_a_type_are_noticed():
    """The rule sees a class and an alias of the same name."""
    planted = [Source("a", "class Step: ..."), Source("b", "from typing import TypeAlias\nStep: TypeAlias = int")]
    assert types_defined_twice(planted) == {"Step": ["a", "b"]}


def test_names_say_what_a_thing_is():
    """No Manager, Handler, Helper, Util, Base, Impl or Info in a class name."""
    named = [node.name for module in MODULES for node in ast.walk(module.tree) if isinstance(node, ast.ClassDef)]
    assert [name for name in named if BANNED_NAMES.search(name)] == []


def test_functions_import_only_what_is_optional():
    """An import inside a function is for an optional dependency, never for a module of our own."""
    assert list(imports_in_functions(MODULES)) == []


def test_an_import_in_a_function_is_noticed():
    """The rule sees an import of our own package inside a function, and none of an extra."""
    planted = Source("a", "def f():\n    from foveal.recall import read\n\ndef g():\n    import openai\n")
    assert list(imports_in_functions([planted])) == ["a.f: foveal.recall"]


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.name or "foveal")
def test_docstrings_begin_with_their_subject(module):
    """A docstring begins with a verb or a noun, not with a clause whose subject the reader has to find."""
    assert list(riddles(module)) == []


@pytest.mark.parametrize("opening", ["What stands behind a reference.", "The original of it.", "Whoever asks."])
def test_a_riddle_is_noticed(opening):
    """The rule sees a noun clause and a noun where a function's verb should be."""
    assert len(list(riddles(Source("a", f'def f():\n    """{opening}"""\n')))) == 1


def test_prose_uses_nouns_for_things():
    """Few noun clauses with "what" in any room."""
    clauses = what_clauses(MODULES)
    assert {room: round(rate, 1) for room, rate in clauses.items() if rate > MOST_WHAT_CLAUSES} == {}


def test_what_clauses_are_counted():
    """The measure sees them in docstrings and in comments."""
    planted = Source("a.b", '"""Says what is shown."""\n# what it was\nx = "what is data is not prose"\n')
    assert what_clauses([planted]) == {"a": 1_000 * 2 / 8}


def test_nobody_asks_a_store_for_its_class():
    """Outside `stores`, a capability of the port is used, never a concrete store."""
    classes = {name for module in MODULES if module.room == "stores" for name in _classes(module.tree)}
    concrete = {name for name in classes if name.endswith(("Store", "Artifacts"))} - {"Store", "Artifacts"}
    assert concrete >= {"MemoryStore", "SqliteStore"}
    assert list(concrete_stores(MODULES, concrete)) == []


def test_a_concrete_store_is_noticed():
    """The rule sees a class in a tuple of classes too."""
    planted = Source("recall.a", "isinstance(store, (int, SqliteStore))")
    assert list(concrete_stores([planted], {"SqliteStore"})) == ["recall.a:1"]


def test_inheritance_is_shallow():
    """No ladder of classes: behaviour is composed, and a reader follows one hop at the most."""
    ladders = {name: depth for name, depth in own_ancestors(MODULES).items() if depth > 1}
    assert {name for name in ladders if not _is_error(name)} == set()


def test_a_ladder_of_classes_is_noticed():
    """The measure counts classes across modules."""
    planted = [Source("a", "class A: ...\nclass B(A): ..."), Source("b", "class C(B): ...")]
    assert own_ancestors(planted) == {"A": 0, "B": 1, "C": 2}


def _classes(tree: ast.Module) -> list[str]:
    return [node.name for node in tree.body if isinstance(node, ast.ClassDef)]


def _is_error(name: str) -> bool:
    errors = next(module for module in MODULES if module.name == "values.errors")
    return name in _classes(errors.tree)
