"""Options of the commands that drive an agent: its file, its provider, its model; and the default agent for a folder."""

import os
import shlex
from argparse import ArgumentParser, Namespace
from collections.abc import Generator
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path

import msgspec

from foveal.agent.agent import Agent
from foveal.agent.agent_file import read_agent
from foveal.agent.built_in_tools import built_in_tools
from foveal.agent.definition import AgentDefinition, everybody, with_successors
from foveal.agent.model_port import DIALECT_OF, ModelChoice, ModelPort
from foveal.agent.providers import FACTS, open_model
from foveal.agent.run_log import read_run
from foveal.cli.arguments import existing_store
from foveal.dialects import find_dialect
from foveal.dialects.tools import read_tools
from foveal.models.catalogue import all_models, find
from foveal.testing.provider import Call, ReceivedRequest, ScriptedProvider, Turn
from foveal.testing.provider.tools import forbids_calls, sample_arguments
from foveal.values.errors import BadInput, FovealError, NotFound

SCRIPTED = "scripted"
USUAL_MODELS = {
    "anthropic": "claude-sonnet-5",
    "openai": "gpt-5",
    "openai-responses": "gpt-5",
    "google": "gemini-2.5-pro",
}
"""Models of the default agent, by the provider whose key is set; the first one found is taken."""
DEFAULT_AGENT = "default"
_SCRIPTED_MODEL = ModelChoice("gpt-5", "openai", "http://scripted.invalid/v1")
"""The model of runs that the scripted provider answers. No such address exists: their conversations are sent nowhere else."""

INSTRUCTIONS = """\
You are an agent that works in a folder of the user's. Look before you answer: list, search and read the files that matter,
and name them in your answer. Change files only where the task asks for it. For a task of several steps, keep a list of todos."""
_TOOLS = ("files", "todos", "ask_human", "shell")


def add_agent(parser: ArgumentParser) -> None:
    """Add the options `--agent`, `--provider`, `--model` and `--workspace`."""
    parser.add_argument("--agent", metavar="FILE", help="the agent, in TOML or YAML (default: one for the files here)")
    providers = ", ".join((*DIALECT_OF, SCRIPTED))
    parser.add_argument(
        "--provider", metavar="P", choices=(*DIALECT_OF, SCRIPTED), help=f"in place of the agent's: {providers}"
    )
    parser.add_argument("--model", metavar="M", help="in place of the agent's, such as claude-sonnet-5 or openai:gpt-5")
    parser.add_argument("--workspace", metavar="DIR", default=".", help="the folder of the default agent (default: .)")


@contextmanager
def opened_agent(args: Namespace, before: str = "", *, driven: str = "") -> Generator[Agent]:
    """Yield the agent that the options name. With the scripted provider, a server on this machine answers in its models'
    place.

    `before` is the model that the conversation has had, as `model_before` returns it: the default agent goes on with that
    one where the options name no other. `driven` is the agent that goes on, where another one of the file has taken over: the
    options name its model.
    """
    if not is_scripted(args, before):
        yield _agent(args, before, driven)
        return
    with ScriptedProvider(improvise=_improvise) as provider:

        def scripted(choice: ModelChoice) -> ModelPort:
            return open_model(ModelChoice(_SCRIPTED_MODEL.model, _SCRIPTED_MODEL.provider, f"{provider.url}/v1"))

        agent = _agent(args, before, driven)
        for one in everybody([agent]):
            one.models, one.open_model = (_SCRIPTED_MODEL,), scripted
        yield agent


def is_scripted(args: Namespace, before: str) -> bool:
    """Return whether the scripted provider answers: the options say so, or name no model and it has answered before."""
    is_named = args.model is not None or args.provider is not None
    return args.provider == SCRIPTED or (not is_named and before == _SCRIPTED_MODEL.spelled)


def check_models(agent: AgentDefinition) -> None:
    """Raise the reason for which no model of the agent can be asked: a key or an SDK that is missing."""
    reasons: list[FovealError] = []
    for choice in agent.models:
        try:
            agent.open_model(choice)
        except FovealError as error:
            reasons.append(error)
        else:
            return
    raise reasons[0]


def model_before(args: Namespace, session: str) -> str:
    """Return the model that the newest run of a session began with, and its address; nothing for a new conversation, and
    where the options name a model or an agent."""
    if not session or args.agent or args.model or args.provider:
        return ""
    try:
        with existing_store(args.store) as store:
            return read_run(store, session).first_model
    except NotFound:  # of the store: this run is its first
        return ""


def go_on_options(args: Namespace) -> str:
    """Return the options by which another command finds the same agent, model and store, for a line to paste."""
    named = {name: getattr(args, name) for name in ("agent", "provider", "model", "workspace", "store")}
    return "".join(f" --{name} {shlex.quote(said)}" for name, said in named.items() if said not in (None, "", "."))


def _agent(args: Namespace, before: str, driven: str) -> Agent:
    choice = _named_model(args)
    if args.agent:
        agent = read_agent(args.agent)
        named = with_successors([agent]).get(driven, agent)
        named.models = (choice, *named.models[1:]) if choice else named.models
        return agent
    if not Path(args.workspace).is_dir():
        raise BadInput(f"{args.workspace} is no folder; name one with --workspace")
    tools = built_in_tools(_TOOLS, args.workspace)
    choice = choice or (ModelChoice.of(before) if before else _usual_model())
    return Agent(INSTRUCTIONS, model=choice, name=DEFAULT_AGENT, tools=tools)


def _named_model(args: Namespace) -> ModelChoice | None:
    """Return the model that the options name; None if they name none."""
    if args.provider == SCRIPTED:
        return _SCRIPTED_MODEL
    if args.model is None:
        return None if args.provider is None else ModelChoice(USUAL_MODELS[args.provider], args.provider)
    choice = ModelChoice.of(args.model)
    if args.provider is None:
        _check_known(choice)
        return choice
    if choice.provider not in ("", args.provider):
        raise BadInput(f"--model {args.model} and --provider {args.provider} name two providers; leave out one")
    return msgspec.structs.replace(choice, provider=args.provider)


def _check_known(choice: ModelChoice) -> None:
    """Raise `BadInput` for a model of no named provider that the catalogue does not know: it would be asked for anywhere."""
    if choice.provider or find(choice.model).known:
        return
    near = get_close_matches(choice.model, [one.id.rpartition("/")[2] for one in all_models()], n=1)
    hint = f" Did you mean {near[0]}?" if near else ""
    raise BadInput(
        f"there is no model {choice.model}.{hint} For one that Foveal does not know: openai:NAME, or openai:NAME@URL"
    )


def _usual_model() -> ModelChoice:
    for name, model in USUAL_MODELS.items():
        if any(os.environ.get(key) for key in FACTS[name].key_names):
            return ModelChoice(model, name)
    keys = ", ".join(dict.fromkeys(FACTS[name].key_names[0] for name in USUAL_MODELS))
    raise BadInput(
        f"there is no key for a model: set one of {keys}; or name a server of your own with --model openai:MODEL@URL; "
        f"or try it without any: --provider {SCRIPTED}"
    )


def _improvise(request: ReceivedRequest) -> Turn:
    """Return a call of a harmless tool after the user's message; a short text after its result, and where calls are forbidden."""
    asked = find_dialect(request.dialect).reader.request(request.body)
    tools = {one.name: one for one in read_tools(asked.tools)}
    newest = asked.messages[-1] if asked.messages else None
    if tools and newest is not None and newest.role == "user" and not forbids_calls(request.body):
        name = "list_files" if "list_files" in tools else next(iter(tools))
        arguments = {} if name == "list_files" else sample_arguments(tools[name].parameters)
        return Turn("I look around first.", (Call(f"call_{len(request.raw)}", name, arguments),))
    return Turn("This is the scripted provider: nobody has thought about it, but everything else was real.")
