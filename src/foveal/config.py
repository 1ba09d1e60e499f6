"""Reading policies from files: TOML, or YAML where the extra is installed.

YAML is read for plain data only: no tags, no aliases, no key twice, and no more than a person would write.
"""

import tomllib
from pathlib import Path
from typing import Any, cast

from foveal.core.errors import BadPolicy, MissingExtra
from foveal.policies import Policy, policy_from

MOST_BYTES = 1 << 20
"""More than anybody writes by hand; a parser is not asked to read more."""


def read_policy(path: str | Path) -> Policy:
    """A policy from a file: YAML if its name ends in .yaml or .yml, else TOML."""
    text = _text(Path(path))
    is_yaml = Path(path).suffix.lower() in (".yaml", ".yml")
    return policy_from(_yaml(text, path) if is_yaml else _toml(text, path), str(path))


def _text(path: Path) -> str:
    try:
        with path.open("rb") as stream:
            data = stream.read(MOST_BYTES + 1)
    except OSError as error:
        raise BadPolicy(f"{path}: cannot be read ({error.strerror})") from None
    if len(data) > MOST_BYTES:
        raise BadPolicy(f"{path}: is larger than {MOST_BYTES:,} bytes; is it a policy?")
    try:
        return data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise BadPolicy(f"{path}: is not UTF-8 text: {error}") from None


def _toml(text: str, path: str | Path) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise BadPolicy(f"{path}: is not TOML: {error}") from None


def _yaml(text: str, path: str | Path) -> dict[str, Any]:
    try:
        import yaml  # noqa: PLC0415 - an extra # pyright: ignore[reportMissingModuleSource]
    except ImportError:
        raise MissingExtra(f"{path}: reading a policy in YAML", "yaml") from None

    class PlainLoader(yaml.SafeLoader):
        """Maps, lists, texts and numbers, each written where it is used."""

        def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
            parser = cast("Any", self)  # the stubs leave the types of events open
            if parser.check_event(yaml.AliasEvent):
                raise BadPolicy(f"{path}: line {parser.peek_event().start_mark.line + 1} has an alias; write it out")
            return super().compose_node(parent, index)

        def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
            keys = [key.value for key, _ in node.value]
            if twice := next((key for i, key in enumerate(keys) if key in keys[:i]), None):
                raise BadPolicy(f"{path}: line {node.start_mark.line + 1} has {twice!r} twice under one key")
            return super().construct_mapping(node, deep)

    try:
        table: object = PlainLoader(text).get_single_data()
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        if isinstance(error, BadPolicy):
            raise
        raise BadPolicy(f"{path}: is not YAML that a policy may use: {' '.join(str(error).split())}") from None
    if table is not None and not isinstance(table, dict):
        raise BadPolicy(f"{path}: holds a {type(table).__name__} where the keys of a policy belong")
    return cast("dict[str, Any]", table or {})
