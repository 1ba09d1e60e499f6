"""Agents as data: what a file says, files that extend others, and mistakes that are told with the nearest key."""

import asyncio

import pytest

import foveal
from foveal.agent import Agent, ApprovalRule, tool
from foveal.agent.agent_file import read_agent
from foveal.values.errors import BadInput

from .conftest import FakeModel, agent_with, calls, says

WHOLE = """
name = "mender"
description = "mends"
instructions = "You mend tests."
fallbacks = ["anthropic:claude-sonnet-5"]
tools = ["files", "todos", "shell", "mine"]
agents = ["sub/reader.toml"]
workspace = "work"

[model]
model = "gpt-5"
provider = "openai"
base_url = "http://localhost:1/v1"
key_env = "MY_KEY"
options = {reasoning_effort = "low"}

[policy]
max_context_tokens = 20000

[limits]
max_steps = 7

[[approvals]]
tool = "shell"
arguments = {command = "^ls"}
verdict = "allow"
"""


@tool
def mine() -> str:
    """Do mine."""
    return "mine"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "work").mkdir()
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "reader.toml").write_text(
        'model = "gpt-5"\ninstructions = "You read."\ntools = ["read_file"]\n'
    )
    (tmp_path / "mender.toml").write_text(WHOLE)
    return tmp_path


def test_a_file_says_everything_about_an_agent(folder):
    """Models, tools, sub-agents, policy, limits and rules."""
    agent = read_agent(folder / "mender.toml", tools={"mine": mine})
    assert (agent.name, agent.description, agent.instructions) == ("mender", "mends", "You mend tests.")
    assert [one.model for one in agent.models] == ["gpt-5", "claude-sonnet-5"]
    assert (agent.models[0].key_env, agent.models[0].options) == ("MY_KEY", {"reasoning_effort": "low"})
    assert set(agent.toolset) == {
        "mine", "read_file", "write_file", "edit_file", "list_files", "search_files", "todo_write", "todo_read", "shell",
    }  # fmt: skip
    assert (agent.limits.max_steps, agent.policy.max_context_tokens, agent.policy.remind) == (7, 20_000, True)
    assert agent.approvals[0].verdict == "allow"
    assert list(agent.agents["reader"].toolset) == ["read_file"]


def test_an_agent_of_a_file_runs(folder, store):
    """With its tools, below its workspace."""
    (folder / "work" / "a.txt").write_text("hello")
    model = FakeModel(calls("read_file", path="a.txt"), says("It says hello."))
    agent = read_agent(folder / "mender.toml", tools={"mine": mine}, open_model=lambda _: model)
    assert asyncio.run(agent.run("Read.", session="s", store=store)).text == "It says hello."
    assert model.requests[-1]["messages"][3]["content"] == "hello"


def test_secrets_are_in_no_log_of_an_agent_whose_file_says_so(folder, store):
    """Nor of the sub-agents that it names, although their files say nothing."""
    key = "sk-ant-api03-" + "a1B2c3D4" * 6
    (folder / "clean.toml").write_text('model = "gpt-5"\nagents = ["sub/reader.toml"]\nredact = true\n')
    found = f"The key is {key}. " * 20
    model = FakeModel(calls("delegate", task=f"Look for {key}."), says(found), says("Done."))
    agent = read_agent(folder / "clean.toml", open_model=lambda _: model)
    assert asyncio.run(agent.run(f"My key is {key}.", session="s", store=store)).text == "Done."
    names = [card.id for card in store.cards()]
    assert len(names) > 1
    assert not any(key.encode() in row.payload for name in names for row in store.rows(name))
    assert read_agent(folder / "sub" / "reader.toml").redact is None


def test_a_file_extends_another(folder):
    """Tables are joined, lists and texts are replaced, and paths of the other file are seen from there."""
    (folder / "sub" / "strict.toml").write_text(
        'extends = "../mender.toml"\ntools = ["todos"]\n[limits]\nmax_calls = 9\n'
    )
    agent = read_agent(folder / "sub" / "strict.toml")
    assert (agent.name, agent.limits.max_steps, agent.limits.max_calls) == ("mender", 7, 9)
    assert list(agent.toolset) == ["todo_write", "todo_read"]
    assert list(agent.agents) == ["reader"]


def test_yaml_is_read_as_well(folder):
    """Where the extra is installed."""
    (folder / "small.yaml").write_text("model: gpt-5\ntools: [todos]\n")
    assert read_agent(folder / "small.yaml").name == "small"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('model = "gpt-5"\ninstruction = "x"\n', "Did you mean instructions"),
        ('model = "gpt-5"\n[limits]\nmax_step = 3\n', "Did you mean max_steps"),
        ('model = "gpt-5"\ntools = ["file"]\n', "Did you mean files"),
        ('model = "gpt-5"\n[limits]\nmax_steps = 0\n', "max_steps is 0"),
        ('[model]\nmodel = "x"\nprovider = "antropic"\n', "Did you mean anthropic"),
        ('model = "gpt-5"\n[policy]\nmax_context_token = 3\n', "max_context_tokens"),
        ('tools = ["todos"]\n', "missing required field `model`"),
        ('model = "gpt-5"\nextends = 3\n', "it is the name of a file"),
        ('model = "gpt-5"\nagents = ["none.toml"]\n', "cannot be read"),
        ('model = "gpt-5"\nagents = ["bad.toml"]\n', "sub-agent of itself"),
        ("model = [", "is not TOML"),
    ],
)
def test_mistakes_are_told_with_file_and_nearest_name(tmp_path, text, words):
    """Nobody has to guess a key."""
    path = tmp_path / "bad.toml"
    path.write_text(text)
    with pytest.raises(foveal.BadInput, match=words) as error:
        read_agent(path)
    assert str(tmp_path) in str(error.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            'tools = ["files"]\n[[approvals]]\ntool = "write_fil"\nverdict = "deny"',
            "approvals[0] names no tool of this agent: 'write_fil'. Did you mean write_file",
        ),
        (
            'tools = ["files"]\n[[approvals]]\ntool = "*_file"\n[[approvals]]\ntool = "tracker_*"',
            "approvals[1] names no tool of this agent: 'tracker_*'",
        ),
        (
            'tools = ["shell"]\n[[approvals]]\ntool = "shell"\narguments = {comand = "rm"}\nverdict = "deny"',
            "approvals[0] names no argument of shell: 'comand'. Did you mean command?",
        ),
        (
            'tools = ["files"]\n[[approvals]]\ntool = "write_file"\nverdict = "aks"',
            "approvals[0].verdict: verdict is allow, ask or deny; did you mean ask?",
        ),
        (
            'tools = ["files"]\n[[approvals]]\ntool = "shell"',
            "approvals[0] names no tool of this agent: 'shell'. There are: edit_file",
        ),
        (
            'tools = ["todos"]\non_demand = ["tod_*"]',
            "on_demand names no tool of this agent: 'tod_*'. There are: todo_read",
        ),
        ('skills = ["nowhere"]', "skills names the folder 'nowhere', which there is not"),
        ('workspace = "nowhere"', "workspace names the folder 'nowhere', which there is not"),
        ('limits = {max_steps = "4"}', "limits.max_steps is a number, without quotes"),
        ('tools = "files"', "tools is a list, in brackets"),
        ('redact = "yes"', "redact is true or false, without quotes"),
    ],
)
def test_a_value_that_would_do_nothing_is_told(tmp_path, text, said):
    """A rule that can match no call, and a value of another form, are errors with the key and the nearest name."""
    (tmp_path / "g.toml").write_text(f'model = "gpt-5"\n{text}\n')
    with pytest.raises(BadInput) as told:
        read_agent(tmp_path / "g.toml")
    assert str(told.value).startswith(f"{tmp_path / 'g.toml'}: ")
    assert said in str(told.value)


def test_rules_and_patterns_are_shared_by_files_that_extend_each_other(folder):
    """A file with other tools may extend one with rules about its own."""
    (folder / "base.toml").write_text(
        'model = "gpt-5"\ntools = ["shell", "files"]\non_demand = ["*_file"]\n[[approvals]]\ntool = "shell"\n'
    )
    (folder / "small.toml").write_text('extends = "base.toml"\ntools = ["todos"]\n')
    assert [one.tool for one in read_agent(folder / "small.toml").approvals] == ["shell"]


def test_rules_about_other_agents_and_about_everything_are_fine():
    """The tools by which an agent uses others are tools of it, and `*` is about all that there are."""
    reader = Agent(model="gpt-5", name="reader")
    rules = [ApprovalRule("delegate"), ApprovalRule("handoff"), ApprovalRule("*")]
    assert Agent(model="gpt-5", agents=[reader], handoffs=[reader], approvals=rules).approvals == tuple(rules)


def test_a_program_names_built_in_tools_as_a_file_does():
    """`tools=["files"]` are the tools for the files of the current folder."""
    assert {"read_file", "write_file", "mine"} <= Agent(model="gpt-5", tools=["files", mine]).toolset.keys()
    with pytest.raises(BadInput, match="there is no built-in tool 'file'"):
        Agent(model="gpt-5", tools=["file"])


def test_an_argument_that_does_not_exist_is_told_of_the_agent():
    """The error names the class that was written, and not the one behind it."""
    with pytest.raises(TypeError, match=r"^Agent.__init__\(\)"):
        Agent(model="gpt-5", tool=[])  # pyright: ignore[reportCallIssue]


def test_a_file_names_functions_of_a_module_beside_it(tmp_path):
    """`MODULE:FUNCTION` is imported from the folder of the file that names it, also by a file that extends it."""
    (tmp_path / "base").mkdir()
    (tmp_path / "base" / "word.py").write_text("WORD = 'pong'\n")
    (tmp_path / "base" / "mytools.py").write_text(
        'from word import WORD\n\n\ndef ping(times: int = 1) -> str:\n    """Say pong."""\n    return WORD * times\n'
    )
    (tmp_path / "base" / "a.toml").write_text('model = "gpt-5"\ntools = ["todos", "mytools:ping"]\n')
    (tmp_path / "b.toml").write_text('extends = "base/a.toml"\n')
    for file in (tmp_path / "base" / "a.toml", tmp_path / "b.toml"):
        assert read_agent(file).toolset["ping"].description == "Say pong."


def test_functions_of_one_module_share_it(tmp_path):
    """It runs once for all functions that a file names, and its classes may have annotations that are read later."""
    (tmp_path / "box.py").write_text(
        "from __future__ import annotations\nfrom dataclasses import dataclass\nimport msgspec\n\nkept = []\n\n\n"
        "@dataclass\nclass Note:\n    text: str\n\n\nclass Given(msgspec.Struct):\n    text: str\n\n\n"
        "def put(given: Given) -> str:\n    kept.append(Note(given.text))\n    return 'kept'\n\n\n"
        "def get() -> str:\n    return kept[0].text\n"
    )
    (tmp_path / "a.toml").write_text('model = "gpt-5"\ntools = ["box:put", "box:get"]\n')
    tools = read_agent(tmp_path / "a.toml").toolset
    model = FakeModel(calls("put", given={"text": "milk"}), calls("get"), says("Done."))
    agent = agent_with(model, *tools.values())
    assert asyncio.run(agent.run("Go.")).status == "completed"
    assert [one["content"] for one in model.requests[-1]["messages"] if one["role"] == "tool"] == ["kept", "milk"]


@pytest.mark.parametrize(
    ("named", "said"),
    [
        ("exits:ping", "exits.py cannot be imported: SystemExit"),
        ("mytols:ping", "mytols.py, which the tool 'mytols:ping' is to come from"),
        ("mytools:pin", "has no function 'pin'. Did you mean ping?"),
        ("broken:ping", "broken.py cannot be imported: NameError"),
    ],
)
def test_a_function_that_is_not_there_is_told(tmp_path, named, said):
    """With the file that was looked for, or the nearest name in it."""
    (tmp_path / "mytools.py").write_text("def ping() -> str:\n    return 'pong'\n")
    (tmp_path / "broken.py").write_text("undefined\n")
    (tmp_path / "exits.py").write_text("import sys\n\nsys.exit(3)\n")
    (tmp_path / "a.toml").write_text(f'model = "gpt-5"\ntools = ["{named}"]\n')
    with pytest.raises(BadInput) as told:
        read_agent(tmp_path / "a.toml")
    assert said in str(told.value)


def test_an_error_names_the_file_in_whichever_folder(tmp_path, monkeypatch):
    """Also where the folder's name begins as the error does; a file below is named once."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "a.toml").write_text('model = "gpt-5"\ntools = ["nosuch"]\n')
    (tmp_path / "t" / "b.toml").write_text('model = "gpt-5"\nagents = ["a.toml"]\n')
    for name in ("a", "b"):
        with pytest.raises(BadInput, match=r"^t/a\.toml: there is no built-in tool 'nosuch'"):
            read_agent(f"t/{name}.toml")
