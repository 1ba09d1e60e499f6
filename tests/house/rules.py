"""House rules as functions over source text, so that each of them can be shown a planted fault."""

import ast
import io
import re
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "foveal"


@dataclass(frozen=True)
class Source:
    """A module of the package: its dotted name below `foveal`, and its text."""

    name: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        """Syntax of the module, parsed when a rule first asks for it."""
        return ast.parse(self.text)

    @property
    def room(self) -> str:
        """First part of the name; empty for the package itself."""
        return self.name.partition(".")[0]


@cache
def sources(package: Path = PACKAGE) -> tuple[Source, ...]:
    """Return every module of the package."""
    found: list[Source] = []
    for path in sorted(package.rglob("*.py")):
        name = ".".join(path.relative_to(package).with_suffix("").parts).removesuffix("__init__").removesuffix(".")
        found.append(Source(name, path.read_text(encoding="utf-8")))
    return tuple(found)


def public_types(modules: Iterable[Source]) -> dict[str, list[str]]:
    """Return where each public class or type alias is defined, by its name."""
    found: dict[str, list[str]] = defaultdict(list)
    for module in modules:
        for node in module.tree.body:
            match node:
                case ast.ClassDef(name=name):
                    found[name].append(module.name)
                case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation) if "TypeAlias" in ast.unparse(
                    annotation
                ):
                    found[name].append(module.name)
                case _:
                    pass
    return {name: places for name, places in found.items() if not name.startswith("_")}


def types_defined_twice(modules: Iterable[Source]) -> dict[str, list[str]]:
    """Return the public types whose name has more than one definition."""
    return {name: places for name, places in public_types(modules).items() if len(places) > 1}


def imports_in_functions(modules: Iterable[Source]) -> Iterator[str]:
    """Yield the places where a function imports a module of our own package."""
    for module in modules:
        for function in ast.walk(module.tree):
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                for node in ast.walk(function):
                    if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "foveal":
                        yield f"{module.name}.{function.name}: {node.module}"


class Docstring(NamedTuple):
    """A docstring with the place and the kind of thing that it documents."""

    place: str
    name: str
    kind: str
    text: str


def docstrings(module: Source) -> Iterator[Docstring]:
    """Yield the docstrings of a module, its classes and its functions."""
    kinds = {ast.Module: "module", ast.ClassDef: "class", ast.FunctionDef: "function", ast.AsyncFunctionDef: "function"}
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text:
                name = getattr(node, "name", "")
                is_property = any("property" in ast.unparse(one) for one in getattr(node, "decorator_list", ()))
                kind = "property" if is_property else kinds[type(node)]
                yield Docstring(f"{module.name}:{name}", name, kind, text)


RIDDLE = re.compile(r"(What|Whatever|Whoever|Who|All that|Of|Where|Whose|How|Which|Whether)\b")
"""Openings that make the reader look for the subject."""

NOT_A_VERB = re.compile(
    r"(The|A|An|It|Its|This|That|These|Those|One|Two|Some|None|No|Nothing|Nobody|Somebody|Everything|All|Each|Every|Such|So|If|"
    r"In|On|At|By|For|From|With|Without|As|Under|Over|Only|Once|Also|Not|Or|And|But)\b"
)
"""Openings of a function's docstring that are no verb."""


def riddles(module: Source) -> Iterator[str]:
    """Yield the docstrings that do not begin with their subject, or a function's that do not begin with a verb."""
    for one in docstrings(module):
        if one.name.startswith("test_"):  # a contract's test states a claim
            continue
        if one.kind == "property" and one.text.startswith("Whether "):  # the usual way to describe a truth
            continue
        if RIDDLE.match(one.text) or (one.kind == "function" and NOT_A_VERB.match(one.text)):
            yield f"{one.place}: {one.text.splitlines()[0]}"


WHAT = re.compile(
    r"(?:^|[\s\"#:;,(])[Ww]hat (?:is|was|are|were|it|its|a|an|the|one|of|stands?|they|has|had|may|must|can|could|no|we|"
    r"somebody|nobody|comes?|came|goes|every|all|each|happened|holds?|follows|others|else|to|this|that|lies|lives)\b"
)
"""A noun clause with "what" where a noun would do."""


def prose(module: Source) -> Iterator[str]:
    """Yield every docstring, attribute docstring and comment of a module."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.value.value
    for token in tokenize.generate_tokens(io.StringIO(module.text).readline):
        if token.type == tokenize.COMMENT and not re.search(r"noqa|pyright|type:", token.string):
            yield token.string


def what_clauses(modules: Iterable[Source]) -> dict[str, float]:
    """Return the noun clauses with "what" in 1 000 words of prose, by room."""
    words, clauses = Counter[str](), Counter[str]()
    for module in modules:
        for piece in prose(module):
            words[module.room] += len(piece.split())
            clauses[module.room] += len(WHAT.findall(piece))
    return {room: 1_000 * clauses[room] / words[room] for room in words}


def concrete_stores(modules: Iterable[Source], classes: Iterable[str]) -> Iterator[str]:
    """Yield the `isinstance` checks against a concrete store or artifact class outside the room of stores."""
    for module in modules:
        if module.room == "stores":
            continue
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance":
                named = {part.id for part in ast.walk(node.args[1]) if isinstance(part, ast.Name)}
                if named.intersection(classes):
                    yield f"{module.name}:{node.lineno}"


def own_ancestors(modules: Iterable[Source]) -> dict[str, int]:
    """Return how many classes of our own stand above each class, values and errors left out."""
    bases: Mapping[str, list[str]] = {
        node.name: [ast.unparse(base).rpartition(".")[2].partition("[")[0] for base in node.bases]
        for module in modules
        for node in module.tree.body
        if isinstance(node, ast.ClassDef) and not node.name.endswith("Contract")
    }

    def depth(name: str) -> int:
        return max((1 + depth(base) for base in bases.get(name, ()) if base in bases), default=0)

    return {name: depth(name) for name in bases}


def imported_modules(tree: ast.Module) -> Iterator[str]:
    """Yield every module that is imported, by a statement or by a call that names it."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module):
                yield module or ""
            case ast.Call(
                ast.Name(id="import_module" | "__import__") | ast.Attribute(attr="import_module"), [name, *_]
            ):
                yield str(name.value) if isinstance(name, ast.Constant) else ast.unparse(name).strip("f'\"")
            case _:
                pass
