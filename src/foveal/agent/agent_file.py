"""An agent as data: a file in TOML, or in YAML where the extra is installed.

    name = "mender"
    model = "claude-sonnet-5"                        # or a table: {model, provider, base_url, key_env, timeout_s, options}
    fallbacks = ["openai:gpt-5"]
    instructions = "You mend failing tests."
    tools = ["files", "todos", "shell", "mytools:ping"]   # built in; or a function of mytools.py beside the file
    agents = ["reader.toml"]                         # also: detached, handoffs
    policy = "policy.toml"                           # or a table
    [limits]
    max_steps = 40
    [[approvals]]
    tool = "shell"
    arguments = {command = "^git (status|diff)$"}
    verdict = "allow"
    [mcp.servers.tracker]
    command = "tracker-server"

`extends` names a file whose keys hold where this one has none: tables are joined, everything else is replaced. An unknown
key is an error that names the nearest known one. Paths are seen from the file that has them.
"""

import re
import sys
import tomllib
from collections.abc import Callable, Collection, Mapping
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import cache
from hashlib import sha256
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, cast

import msgspec

from foveal.agent.agent import Agent
from foveal.agent.approvals import VERDICTS, ApprovalRule, check_rules
from foveal.agent.built_in_tools import built_in_tools
from foveal.agent.mcp_tools import McpServer, lasting_tools
from foveal.agent.model_port import ModelChoice, ModelPort
from foveal.agent.near_names import did_you_mean
from foveal.agent.next_step import Limits
from foveal.agent.providers import open_model
from foveal.agent.tools import Tool, tool
from foveal.context.environment import Environment
from foveal.context.skills import Skills
from foveal.session.policy import Policy, policy_from
from foveal.session.policy_file import laid_over, read_policy
from foveal.text.plain_yaml import plain_yaml
from foveal.text.redaction import redact_secrets
from foveal.values.errors import BadInput, BadPolicy
from foveal.writers.faults import describe

MOST_BYTES = 1 << 20
"""More than anybody writes by hand."""


_WRONG_TYPE = re.compile(r"Expected `([^`]+)`, got `")
_FORMS = {
    "int": "is a number, without quotes",
    "float": "is a number, without quotes",
    "bool": "is true or false, without quotes",
    "str": "is a text, in quotes",
    "array": "is a list, in brackets",
    "object": "is a table of its own",
}
"""Forms of values in a file, by the beginning of msgspec's name for them."""

_PATHS = ("agents", "detached", "handoffs", "policy", "skills", "workspace")


class McpTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The table `mcp` of an agent file."""

    servers: dict[str, McpServer] = {}


class AgentTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The keys of an agent file."""

    model: str | ModelChoice
    name: str = ""
    description: str = ""
    instructions: str = ""
    fallbacks: tuple[str | ModelChoice, ...] = ()
    tools: tuple[str, ...] = ()
    on_demand: tuple[str, ...] = ()
    """Names or patterns of tools that are offered when they were found."""
    agents: tuple[str, ...] = ()
    detached: tuple[str, ...] = ()
    handoffs: tuple[str, ...] = ()
    skills: tuple[str, ...] = ()
    """Folders of skills."""
    workspace: str = "."
    policy: str | dict[str, Any] | None = None
    finalize: str = ""
    limits: Limits = Limits()
    approvals: tuple[ApprovalRule, ...] = ()
    redact: bool = False
    """Whether secrets of known shapes are taken out of all that is recorded, also of the agents that the file names."""
    mcp: McpTable = McpTable()


def read_agent(
    path: str | Path,
    *,
    tools: Mapping[str, Tool] | None = None,
    open_model: Callable[[ModelChoice], ModelPort] = open_model,
) -> Agent:
    """Read an agent from a file. `tools` are tools of your own, which the file may name beside the built-in ones."""
    return _agent(Path(path), tools or {}, open_model)


def _agent(
    path: Path,
    own: Mapping[str, Tool],
    open_model: Callable[[ModelChoice], ModelPort],
    above: tuple[Path, ...] = (),
    *,
    redacts: bool = False,
) -> Agent:
    if path.resolve() in above:
        raise BadInput(f"{path}: is a sub-agent of itself; name another agent")
    own_keys, table = _table(path).keys(), _converted(_joined(path, ()), path)
    _check_folders(table, path)
    folder, chain, redacts = path.parent, (*above, path.resolve()), redacts or table.redact
    mine = [own[name] for name in table.tools if name in own]
    others_named = [name for name in table.tools if name not in own]
    mine += [_named(path, lambda name=name: _module_tool(name, folder)) for name in others_named if ":" in name]
    built_in = _named(
        path, lambda: built_in_tools([name for name in others_named if ":" not in name], folder / table.workspace)
    )
    served = _named(
        path, lambda: [one for name, server in table.mcp.servers.items() for one in lasting_tools(name, server)]
    )

    def others(files: tuple[str, ...]) -> list[Agent]:
        return [_agent(folder / one, own, open_model, chain, redacts=redacts) for one in files]

    skills = Skills.scan([folder / one for one in table.skills]) if table.skills else None

    def made() -> Agent:
        agent = Agent(
            table.instructions,
            model=table.model,
            name=table.name or path.stem,
            description=table.description,
            fallbacks=table.fallbacks,
            tools=(*mine, *built_in, *served),
            on_demand=table.on_demand,
            agents=others(table.agents),
            detached=others(table.detached),
            handoffs=others(table.handoffs),
            policy=_policy(table.policy, path),
            finalize=table.finalize,
            limits=table.limits,
            environment=Environment(skills=skills) if skills else None,
            open_model=open_model,
            redact=redact_secrets if redacts else None,
        )
        _check_patterns(agent, table, own_keys)
        agent.approvals = table.approvals
        return agent

    return _named(path, made)


def _check_folders(table: AgentTable, path: Path) -> None:
    """Raise `BadInput` for a folder that is not there: its skills would be missing, and only the model be told of a workspace."""
    for key, named in (("workspace", (table.workspace,)), ("skills", table.skills)):
        for one in named:
            if not (path.parent / one).is_dir():
                raise BadInput(f"{path}: {key} names the folder {one!r}, which there is not: {path.parent / one}")


def _check_patterns(agent: Agent, table: AgentTable, own_keys: Collection[str]) -> None:
    """Raise `BadInput` for an approval rule or a pattern of tools on demand that this agent has no tool for.

    Those of a file that this one extends may be about other tools: several agents share them.
    """
    known = agent.arguments_of_tools()
    check_rules(table.approvals, known if "approvals" in own_keys else dict.fromkeys(_built_in_names()) | known)
    for pattern in table.on_demand if "on_demand" in own_keys else ():
        beginning = re.split(r"[*?[]", pattern)[0]
        of_servers = [
            name for name in table.mcp.servers if f"{name}_".startswith(beginning) or beginning.startswith(f"{name}_")
        ]
        if not of_servers and not any(fnmatchcase(name, pattern) for name in agent.toolset):
            raise BadInput(
                f"on_demand names no tool of this agent: {pattern!r}. {did_you_mean(pattern, agent.toolset)}"
            )


@cache
def _built_in_names() -> tuple[str, ...]:
    return tuple(one.name for one in built_in_tools(("files", "todos", "ask_human", "shell", "fetch")))


def _module_tool(named: str, folder: Path) -> Tool:
    """Return the tool that `MODULE:FUNCTION` names, from the module of that name in the folder of the file. This runs it."""
    module, _, function = named.rpartition(":")
    place = folder / (module if module.endswith(".py") else f"{module.replace('.', '/')}.py")
    if not place.is_file():
        raise BadInput(f"there is no {place}, which the tool {named!r} is to come from")
    made = _module(place, folder)
    found = getattr(made, function, None)
    if not isinstance(found, Tool) and not callable(found):
        names = [name for name, value in vars(made).items() if isinstance(value, Tool | FunctionType)]
        raise BadInput(f"{place} has no function {function!r}. {did_you_mean(function, names)}")
    return found if isinstance(found, Tool) else tool(found)


def _module(place: Path, folder: Path) -> ModuleType:
    """Return the module of a file. It runs once for all tools that are named from it, until the file is changed. The interpreter
    knows it: it reads annotations that are texts from there."""
    try:
        content = place.read_bytes()
    except OSError as error:
        raise BadInput(f"{place} cannot be read ({error.strerror})") from None
    name = f"foveal_agent_tools.{place.stem}_{sha256(bytes(place.resolve()) + content).hexdigest()[:12]}"
    if name in sys.modules:
        return sys.modules[name]
    spec = spec_from_file_location(name, place)
    if spec is None or spec.loader is None:
        raise BadInput(f"{place} is no module of Python")
    if str(folder.resolve()) not in sys.path:
        sys.path.append(str(folder.resolve()))  # for modules beside it; at the end, so that it hides no installed one
    made = sys.modules[name] = module_from_spec(spec)
    try:
        spec.loader.exec_module(made)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise BadInput(f"{place} cannot be imported: {describe(error)}") from error
    return made


def _named(path: Path, make: Callable[[], Any]) -> Any:
    """Return a value; an error about it names the file."""
    try:
        return make()
    except BadInput as error:
        raise (
            error if str(error).startswith((f"{path}:", f"{path.parent}/")) else BadInput(f"{path}: {error}")
        ) from None


def _policy(said: str | dict[str, Any] | None, path: Path) -> Policy | None:
    if said is None:
        return None
    return (
        read_policy(path.parent / said)
        if isinstance(said, str)
        else policy_from({"remind": True, **said}, f"{path}: policy")
    )


def _converted(table: Mapping[str, Any], path: Path) -> AgentTable:
    try:
        return msgspec.convert(table, AgentTable)
    except (msgspec.ValidationError, BadInput) as error:
        raise BadInput(f"{path}: {_plain_error(str(error))}") from None


def _plain_error(said: str) -> str:
    """Return an error of msgspec about a table in the words of the file: the key, and the form that its value has."""
    error, _, where = said.partition(" - at `$")
    where = where.rstrip("`").lstrip(".")
    if "unknown field" in error:
        kinds = (AgentTable, ModelChoice, Limits, ApprovalRule, McpTable, McpServer)
        known = {one for kind in kinds for one in kind.__struct_fields__}
        return f"{said}. {did_you_mean(error.split('`')[1], known)}"
    if error.startswith("Invalid enum value") and where.endswith("verdict"):
        near = get_close_matches(error.split("'")[1], VERDICTS, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        return f"{where}: verdict is {', '.join(VERDICTS[:-1])} or {VERDICTS[-1]}{hint}"
    wanted = _WRONG_TYPE.match(error)
    form = next((text for name, text in _FORMS.items() if wanted and wanted[1].startswith(name)), "")
    return f"{where} {form}" if form else said


def _joined(path: Path, below: tuple[Path, ...]) -> dict[str, Any]:
    """Return the table of a file, laid over that of the file that it extends."""
    table = _table(path)
    base: object = table.pop("extends", None)
    if base is None:
        return table
    if not isinstance(base, str):
        raise BadInput(f"{path}: extends is {base!r}; it is the name of a file, as seen from this one")
    chain = (*below, path.resolve())
    if (path.parent / base).resolve() in chain:
        raise BadInput(f"{path}: extends {base!r}, which extends this file in turn")
    extended = path.parent / base
    return laid_over(_with_whole_paths(_joined(extended, chain), extended.parent), table)


def _with_whole_paths(table: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return the table with names of files and folders that hold from any folder."""

    def whole(value: object) -> object:
        if isinstance(value, list):
            return [whole(one) for one in cast("list[object]", value)]
        return str((folder / value).resolve()) if isinstance(value, str) else value

    joined = {key: whole(value) if key in _PATHS else value for key, value in table.items()}
    if isinstance(tools := joined.get("tools"), list):
        joined["tools"] = [_whole_tool(one, folder) for one in cast("list[object]", tools)]
    return joined


def _whole_tool(named: object, folder: Path) -> object:
    """Return the name of a tool; that of a module with its whole path."""
    if not isinstance(named, str) or ":" not in named:
        return named
    module, _, function = named.rpartition(":")
    file = module if module.endswith(".py") else f"{module.replace('.', '/')}.py"
    return f"{(folder / file).resolve()}:{function}"


def _table(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as stream:
            text = stream.read(MOST_BYTES).decode("utf-8-sig")
    except (OSError, UnicodeDecodeError, ValueError) as error:
        raise BadInput(f"{path}: cannot be read ({getattr(error, 'strerror', None) or error})") from None
    try:
        return plain_yaml(text, path, "an agent") if path.suffix.lower() in (".yaml", ".yml") else tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise BadInput(f"{path}: is not TOML: {error}") from None
    except BadPolicy as error:
        raise BadInput(str(error)) from None
