"""Options of the commands that drive an agent: its file, its provider, its model; and the default agent for a folder."""

import os
from argparse import ArgumentParser, Namespace
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from foveal.agent.agent import Agent
from foveal.agent.agent_file import read_agent
from foveal.agent.built_in_tools import built_in_tools
from foveal.agent.model_port import DIALECT_OF, ModelChoice, ModelPort
from foveal.agent.providers import FACTS, open_model
from foveal.dialects import find_dialect
from foveal.dialects.tools import read_tools
from foveal.testing.provider import Call, ReceivedRequest, ScriptedProvider, Turn
from foveal.testing.provider.tools import sample_arguments
from foveal.values.errors import BadInput

SCRIPTED = "scripted"
USUAL_MODELS = {"anthropic": "claude-sonnet-5", "openai": "gpt-5", "google": "gemini-2.5-pro"}
"""Models of the default agent, by the provider whose key is set; the first one found is taken."""

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
def opened_agent(args: Namespace) -> Generator[Agent]:
    """Yield the agent that the options name. With the scripted provider, a server on this machine answers in its models'
    place."""
    if args.provider != SCRIPTED:
        yield _agent(args)
        return
    with ScriptedProvider(improvise=_improvise) as provider:

        def scripted(choice: ModelChoice) -> ModelPort:
            return open_model(ModelChoice("gpt-5", "openai", f"{provider.url}/v1"))

        agent = _agent(args)
        agent.models, agent.open_model = (ModelChoice("gpt-5", "openai"),), scripted
        for one in (*agent.agents.values(), *agent.detached.values(), *agent.handoffs.values()):
            one.models, one.open_model = agent.models, scripted
        yield agent


def _agent(args: Namespace) -> Agent:
    choice = None if args.model is None else ModelChoice.of(args.model)
    if choice is None and args.provider in USUAL_MODELS:
        choice = ModelChoice(USUAL_MODELS[args.provider], args.provider)
    if args.agent:
        agent = read_agent(args.agent)
        agent.models = (choice, *agent.models[1:]) if choice else agent.models
        return agent
    if not Path(args.workspace).is_dir():
        raise BadInput(f"{args.workspace} is no folder; name one with --workspace")
    tools = built_in_tools(_TOOLS, args.workspace)
    return Agent(INSTRUCTIONS, model=choice or _usual_model(args.provider), name="default", tools=tools)


def _usual_model(provider: str | None) -> ModelChoice:
    if provider == SCRIPTED:
        return ModelChoice("gpt-5", "openai")
    for name, model in USUAL_MODELS.items():
        if any(os.environ.get(key) for key in FACTS[name].key_names):
            return ModelChoice(model, name)
    keys = ", ".join(FACTS[name].key_names[0] for name in USUAL_MODELS)
    raise BadInput(
        f"there is no key for a model: set one of {keys}; or name a server of your own with --model openai:MODEL@URL; "
        f"or try it without any: --provider {SCRIPTED}"
    )


def _improvise(request: ReceivedRequest) -> Turn:
    """Return a call of a harmless tool after the user's message, and a short text after its result."""
    asked = find_dialect(request.dialect).reader.request(request.body)
    tools = {one.name: one for one in read_tools(asked.tools)}
    newest = asked.messages[-1] if asked.messages else None
    if tools and newest is not None and newest.role == "user":
        name = "list_files" if "list_files" in tools else next(iter(tools))
        arguments = {} if name == "list_files" else sample_arguments(tools[name].parameters)
        return Turn("I look around first.", (Call(f"call_{len(request.raw)}", name, arguments),))
    return Turn("This is the scripted provider: nobody has thought about it, but everything else was real.")
