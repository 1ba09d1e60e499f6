"""YAML read as plain data: tags, aliases and repeated keys are refused."""

from typing import Any, cast

from foveal.values.errors import BadPolicy, MissingExtra


def plain_yaml(text: str, path: object, what: str = "a policy") -> dict[str, Any]:
    """Return the keys of a YAML text as plain data. `path` and `what` name the file and its purpose in errors."""
    try:
        import yaml  # noqa: PLC0415 - an extra # pyright: ignore[reportMissingModuleSource]
    except ImportError:
        raise MissingExtra(f"{path}: reading {what} in YAML", "yaml") from None

    class PlainLoader(yaml.SafeLoader):
        """Loader of maps, lists, texts and numbers, each written out where it is used."""

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
        raise BadPolicy(f"{path}: is not YAML that {what} may use: {' '.join(str(error).split())}") from None
    if table is not None and not isinstance(table, dict):
        raise BadPolicy(f"{path}: holds a {type(table).__name__} where the keys of {what} belong")
    return cast("dict[str, Any]", table or {})
