"""Scripts in operations: one script for every client's tools, every format and many conversations; faults by step."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from unittest.mock import ANY

import pytest

from foveal.testing.provider import (
    Delegate,
    Edit,
    Own,
    RawCall,
    RawReply,
    Read,
    Refusal,
    ScriptedProvider,
    Shell,
    Silence,
    Step,
    TooLong,
    Turn,
    read_scripts,
)
from foveal.testing.provider.conversations import AT_ITS_END, session_key
from foveal.values.errors import BadInput

from .small_agents import AGENTS, ASKED, CLIENTS, ChatAgent, GeminiAgent, MessagesAgent, ResponsesAgent, Tool, work


def _nothing(given, folder):
    return "nothing"


MENDS = (
    Step("I look.", "The sum is wrong.", (Read("sum.py"), Shell("ls"))),
    Step(do=(Edit("sum.py", "    return a - b", "    return a + b"),)),
    Step(do=(Shell("echo 'it''s mended' >> notes.txt"),)),
    Step(do=(Own(),)),
    Step("The sum is right now."),
)
PI = CLIENTS["pi"]


@pytest.fixture
def provider(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with ScriptedProvider() as running:
        yield running


@pytest.fixture
def agent_for(provider):
    made = []

    def make(kind, tools=PI, headers=None):
        agent = kind(provider.url, tools, headers)
        agent.say(ASKED)
        made.append(agent)
        return agent

    yield make
    for agent in made:
        agent.close()


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "sum.py").write_text("def add(a, b):\n    return a - b\n")
    return tmp_path


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("dialect", AGENTS)
@pytest.mark.parametrize("tools", CLIENTS.values(), ids=CLIENTS)
def test_one_script_runs_on_every_clients_tools_in_every_format(provider, folder, tools, dialect, stream):
    """Reading, running and editing find the tool, whatever its name and parameters are, and the work is really done."""
    provider.play(*MENDS)
    agent = AGENTS[dialect](provider.url, tools)
    agent.say(ASKED)
    told = work(agent, tools, folder, stream=stream)
    agent.close()
    assert (told[0], told[-1], len(told)) == ("I look.", "The sum is right now.", 7)
    assert (folder / "sum.py").read_text() == "def add(a, b):\n    return a + b\n"
    assert (folder / "notes.txt").read_text() == "its mended\n"
    assert provider.refused == []
    assert len(provider.usages) == len(MENDS)


def test_paths_are_put_behind_the_clients_folder(monkeypatch):
    """Clients that want absolute paths get them."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with ScriptedProvider(cwd="/home/me/project") as provider:
        provider.play(Step(do=(Read("a.py"), Shell("ls"))))
        agent = MessagesAgent(provider.url, CLIENTS["claude"])
        agent.say(ASKED)
        assert [given for _, _, given in agent.ask().calls] == [
            {"file_path": "/home/me/project/a.py"},
            {"command": "ls", "workdir": "/home/me/project"},
        ]
        agent.close()


@pytest.mark.parametrize("dialect", AGENTS)
def test_an_own_tool_is_called_where_it_is_offered(provider, agent_for, dialect):
    """A recall asks for the newest reference that the request shows; without the tool the shell runs `true`."""
    recall = Tool(
        "recall_context", {"type": "object", "properties": {"ref": {"type": "string"}}, "required": ["ref"]}, _nothing
    )
    provider.play(Step(do=(Own(),)), Step(do=(Own("search_context", {"query": "sum"}),)))
    agent = agent_for(AGENTS[dialect], [*PI, recall])
    agent.say("[ref aaaaaaaaaa] and then [ref 01k9zt5a2b..01k9zt7c3d: 5 messages]")
    ((call, name, given),) = agent.ask().calls
    assert (name, given) == ("recall_context", {"ref": "01k9zt5a2b..01k9zt7c3d"})
    agent.tell([(call, name, "text")])
    ((_, name, given),) = agent.ask().calls
    assert (name, given) == ("bash", {"command": "true"})


def test_a_raw_operation_is_sent_as_it_is(provider, agent_for):
    """A tool that nobody offers, a text as input and a namespace reach the client."""
    provider.play(
        Step(do=(RawCall("unknown", {"a": 1}), RawCall("write", "plain text"), RawCall("look", {}, namespace="web")))
    )
    agent = agent_for(ResponsesAgent)
    assert [(name, given) for _, name, given in agent.ask().calls] == [
        ("unknown", {"a": 1}),
        ("write", "plain text"),
        ("look", {}),
    ]


def test_a_namespaced_tool_is_called_with_its_namespace(provider, agent_for):
    """A tool in a namespace is found by its own name."""
    provider.play(Step(do=(Shell("ls"),)))
    agent = agent_for(ResponsesAgent, [])
    agent.tools = [{"type": "namespace", "name": "box", "tools": [agent.offer(CLIENTS["codex"][0])]}]
    provider.is_strict = False
    reply = agent.client.responses.create(model="gpt-5", input=ASKED, tools=agent.tools)
    assert (reply.output[0].name, reply.output[0].namespace) == ("exec_command", "box")


def test_a_step_that_no_tool_can_do_is_refused_by_name(provider, agent_for):
    """The error names the command and the tools; the step stays."""
    provider.play(Step(do=(Shell("ls"),)))
    agent = agent_for(ChatAgent, [CLIENTS["claude"][0]])
    with pytest.raises(Exception, match=r"the script runs 'ls', but no shell is among the tools: read"):
        agent.ask()
    assert len(provider.refused) == 1


@pytest.mark.parametrize("dialect", AGENTS)
def test_the_same_messages_get_the_same_step_again(provider, agent_for, dialect):
    """A retry is no progress; ids are new each time, and the conversation goes on from either answer."""
    provider.play(Step("One.", do=(Read("a.py"),)), Step("Two.", do=(Read("b.py"),)), Step("Three."))
    agent = agent_for(AGENTS[dialect])
    first = agent.ask()
    kept = list(agent.messages)
    del agent.messages[-len(agent.messages) + 1 :]
    again = agent.ask()
    assert (first.text, again.text) == ("One.", "One.")
    assert first.calls[0][0] != again.calls[0][0]
    for messages, heard in ((agent.messages, again), (kept, first)):
        agent.messages = messages
        agent.tell([(heard.calls[0][0], "read", "text")])
        assert agent.ask().text == "Two."


@pytest.mark.parametrize("dialect", AGENTS)
def test_a_changed_history_is_the_same_conversation(provider, agent_for, dialect):
    """A gateway that folds the beginning away, first message and all, gets the next step: the newest call tells where it is."""
    provider.play(Step("One.", do=(Read("a.py"),)), Step("Two.", do=(Read("b.py"),)), Step("Three."))
    agent = agent_for(AGENTS[dialect])
    for expected in ("One.", "Two."):
        heard = agent.ask()
        assert heard.text == expected
        agent.tell([(heard.calls[0][0], "read", f"text of {expected}")])
    newest = agent.messages[-3:] if dialect == "openai_responses" else agent.messages[-2:]
    agent.messages = []
    agent.say("A summary of everything.")
    agent.messages += newest
    assert agent.ask().text == "Three."


def test_a_named_conversation_needs_no_history(provider, agent_for):
    """With a session header the step is kept whatever the messages are."""
    provider.play(Step("One."), Step("Two."))
    agent = agent_for(ChatAgent, [], {"x-session-id": "s1"})
    assert agent.ask().text == "One."
    agent.messages = [{"role": "user", "content": "Something else."}]
    assert agent.ask().text == "Two."
    agent.messages = [{"role": "user", "content": "And more."}]
    assert agent.ask().text == AT_ITS_END
    assert {request.conversation for request in provider.requests} == {"s1"}


@pytest.mark.parametrize(
    ("headers", "body", "key"),
    [
        ({"x-claude-code-session-id": "s"}, {}, "s"),
        ({"x-claude-code-session-id": "s", "x-claude-code-agent-id": "a"}, {}, "s/a"),
        ({"session-id": "s", "thread-id": "t"}, {"prompt_cache_key": "s"}, "t"),
        ({"session_id": "p"}, {"prompt_cache_key": "q"}, "p"),
        ({}, {"metadata": {"user_id": '{"session_id": "u"}'}}, "u"),
        ({}, {"metadata": {"user_id": "user_1"}, "prompt_cache_key": "q"}, "q"),
        ({}, {}, ""),
    ],
)
def test_conversations_are_named_as_clients_name_them(headers, body, key):
    """Agent and thread come before the session that they share."""
    assert session_key(headers, body) == key


def test_conversations_play_side_by_side(provider, folder):
    """Twenty at once, in four formats, each from the first step to the last."""
    provider.play(*MENDS)
    starts = threading.Barrier(20)

    def one(number):
        place = folder / str(number)
        place.mkdir()
        (place / "sum.py").write_text("def add(a, b):\n    return a - b\n")
        agent = list(AGENTS.values())[number % 4](provider.url, PI)
        agent.say(f"Mend number {number}.")
        starts.wait(60)
        told = work(agent, PI, place, stream=number % 2 == 0)
        agent.close()
        return told

    with ThreadPoolExecutor(20) as pool:
        ends = list(pool.map(one, range(20)))
    assert {(told[-1], len(told)) for told in ends} == {("The sum is right now.", 7)}
    assert len(provider.bills) == 20
    ids = [one for request in provider.requests for one in _call_ids(request.raw)]
    assert len(set(ids)) == 20 * 5


def _call_ids(raw):
    for key in ("tool_call_id", "tool_use_id"):
        yield from (part.split('"')[2] for part in raw.decode().split(f'"{key}')[1:])
    if b"function_call_output" in raw or b"functionResponse" in raw:
        yield from {item["call_id"] for item in json.loads(raw).get("input", ()) if "output" in item}
        parts = (part for content in json.loads(raw).get("contents", ()) for part in content["parts"])
        yield from (part["functionResponse"]["id"] for part in parts if "functionResponse" in part)


def test_two_clients_with_the_same_words_do_not_mix(provider, agent_for):
    """Without any id of their own they are told apart by the calls that each of them answers."""
    provider.play(Step("One.", do=(Read("a.py"),)), Step("Two.", do=(Read("b.py"),)), Step("Three."))
    agents = [agent_for(MessagesAgent), agent_for(MessagesAgent)]
    for expected in ("One.", "Two.", "Three."):
        for number, agent in enumerate(agents):
            heard = agent.ask()
            assert heard.text == expected
            agent.tell([(one, name, f"text of {number}") for one, name, _ in heard.calls])


def test_a_sub_agent_has_a_script_of_its_own(provider, agent_for):
    """The text that a conversation begins with chooses the script."""
    provider.play(Step("I am the parent."))
    provider.play(Step("I am the child."), when='Count the "lines"')
    child = ChatAgent(provider.url, PI)
    child.say('Count the "lines" of a.py.')
    assert (agent_for(ChatAgent).ask().text, child.ask().text) == ("I am the parent.", "I am the child.")
    child.close()


@pytest.mark.parametrize(
    ("name", "schema", "arguments"),
    [
        (
            "Agent",
            {"description": "string", "prompt": "string", "subagent_type": "string", "run_in_background": "boolean"},
            {"prompt": "Count.", "subagent_type": "general-purpose", "run_in_background": False, "description": ANY},
        ),
        (
            "task",
            {"description": "string", "prompt": "string", "subagent_type": "string"},
            {"prompt": "Count.", "subagent_type": "general", "description": ANY},
        ),
        ("spawn_agent", {"message": "string"}, {"message": "Count."}),
        (
            "invoke_agent",
            {"agent_name": "string", "prompt": "string"},
            {"prompt": "Count.", "agent_name": "generalist"},
        ),
    ],
    ids=["Claude Code", "opencode", "Codex", "Gemini CLI"],
)
def test_a_task_is_delegated_by_the_clients_own_tool(provider, agent_for, name, schema, arguments):
    """A sub-agent is started by the tool that the client has for it, of the kind that does any task, and is waited for."""
    provider.play(Step(do=(Delegate("Count."),)))
    properties = {key: {"type": kind} for key, kind in schema.items()}
    tool = Tool(name, {"type": "object", "properties": properties, "required": list(schema)}, _nothing)
    ((_, called, given),) = agent_for(ChatAgent, [*PI, tool]).ask().calls
    assert (called, given) == (name, arguments)


def test_a_task_that_nobody_can_take_is_refused(provider, agent_for):
    """A script that delegates to a client without sub-agents fails by name."""
    provider.play(Step(do=(Delegate("Count."),)))
    with pytest.raises(Exception, match="no tool starts an agent: read, bash"):
        agent_for(ChatAgent).ask()


def test_side_calls_are_no_steps(provider, agent_for):
    """A title without tools, a summary by command and an answer in JSON leave the step where it was."""
    provider.play(Step("One.", do=(Read("a.py"),)), side="The title")
    headers = {"x-session-id": "s"}
    assert agent_for(ChatAgent, [], headers).ask().text == "The title"
    told = agent_for(MessagesAgent, PI, headers)
    told.say("CRITICAL: Respond with TEXT ONLY. Summarise.")
    assert told.ask().text == "The title"
    asks = agent_for(GeminiAgent, PI, headers)
    schema = {"type": "object", "properties": {"next": {"type": "string", "enum": ["user"]}}, "required": ["next"]}
    asks.config |= {"response_mime_type": "application/json", "response_json_schema": schema}
    assert json.loads(asks.ask().text) == {"next": "user"}
    assert agent_for(ChatAgent, PI, headers).ask().text == "One."


def both(agent, *, stream=False):
    """Ask, say something, ask again."""
    first = agent.ask(stream=stream).text
    agent.say("Go on.")
    return [first, agent.ask(stream=stream).text]


REFUSALS = [
    (Refusal(429, "slow down", {"retry-after": "7"}), "slow down"),
    (Refusal(500, "Internal"), "Internal"),
    (Refusal(529, "Overloaded"), "Overloaded"),
    (TooLong(5_000), r"(?i)too long|exceeds|maximum context length"),
]


@pytest.mark.parametrize(("fault", "words"), REFUSALS, ids=["429", "500", "529", "overflow"])
@pytest.mark.parametrize("dialect", AGENTS)
def test_a_refused_step_is_given_to_the_next_request(provider, agent_for, dialect, fault, words):
    """Each fault of a step is met once, whether the next request is the same or another; then the step is given."""
    provider.play(Step("One.", faults=(fault, fault)), Step("Two."))
    agent = agent_for(AGENTS[dialect], [])
    for _ in range(2):
        with pytest.raises(Exception, match=words):
            agent.ask()
        agent.say("Shorter now.")
    assert both(agent) == ["One.", "Two."]


def test_the_headers_of_a_fault_arrive(provider, agent_for):
    """A client can honour `retry-after`."""
    provider.play(Step("One.", faults=(REFUSALS[0][0],)))
    with pytest.raises(Exception, match="slow down") as caught:
        agent_for(ChatAgent, []).ask()
    headers = caught.value.response.headers  # pyright: ignore[reportAttributeAccessIssue]
    assert headers["retry-after"] == "7"
    assert headers["x-request-id"]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("dialect", AGENTS)
def test_a_cut_step_is_given_again(provider, agent_for, dialect, stream):
    """A reply that did not arrive whole is no step, in a stream and in a body, whatever the client asks next."""
    provider.play(Step("One, and many words.", faults=(Turn(cut_after=6),)), Step("Two."))
    agent = agent_for(AGENTS[dialect], [])
    with pytest.raises(Exception, match=r"(?i)peer closed|incomplete|connection|payload"):
        agent.ask(stream=stream)
    agent.say("I heard nothing.")
    assert both(agent, stream=stream) == ["One, and many words.", "Two."]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("dialect", AGENTS)
def test_an_error_within_a_stream(provider, agent_for, dialect, stream):
    """A stream that began well ends with the provider's error event; an unstreamed request gets the error at once."""
    provider.play(Step("One.", faults=(Turn(fails=Refusal(529, "Overloaded")),)))
    agent = agent_for(AGENTS[dialect], [])
    if dialect == "openai_responses" and stream:
        with agent.client.responses.stream(model="gpt-5", input=ASKED) as events:
            (failed,) = [event for event in events if event.type == "response.failed"]
        assert (failed.response.status, failed.response.error.message) == ("failed", "Overloaded")
    else:
        with pytest.raises(Exception, match="Overloaded"):
            agent.ask(stream=stream)
    assert agent.ask(stream=stream).text == "One."


def test_a_failed_response_can_be_an_overflow(provider, agent_for):
    """Responses tells of a long prompt within the stream."""
    provider.play(Step("One.", faults=(Turn(fails=TooLong(5_000)),)))
    agent = agent_for(ResponsesAgent, [])
    with agent.client.responses.stream(model="gpt-5", input=ASKED) as events:
        (failed,) = [event for event in events if event.type == "response.failed"]
    assert failed.response.error.code == "context_length_exceeded"


@pytest.mark.parametrize("ping_s", [0.0, 0.01])
@pytest.mark.parametrize("dialect", AGENTS)
def test_a_stream_that_stalls_goes_on(provider, agent_for, dialect, ping_s):
    """A pause, with or without signs of life, loses nothing."""
    provider.play(Step("One.", faults=(Turn(stall_after=3, stall_s=0.05, ping_s=ping_s),)), Step("Two."))
    agent = agent_for(AGENTS[dialect], [])
    assert both(agent, stream=True) == ["One.", "Two."]


def test_a_stall_without_end_is_no_step(provider):
    """A client that gave up, and one that never heard a word, get the step when they come back."""
    provider.play(Step("One.", faults=(Turn(stall_after=2), Silence())), Step("Two."))
    agent = ChatAgent(provider.url, [])
    agent.say(ASKED)
    agent.client = agent.client.with_options(timeout=0.3)
    for stream in (True, False):
        with pytest.raises(Exception, match=r"(?i)timed out|timeout"):
            agent.ask(stream=stream)
    agent.client = agent.client.with_options(timeout=20)
    assert agent.ask().text == "One."
    agent.close()


@pytest.mark.parametrize("dialect", AGENTS)
def test_odd_usage_is_reported_and_the_step_is_given(provider, agent_for, dialect):
    """A count that makes a client compact goes with the step's own reply."""
    provider.play(Step("One.", faults=(Turn(counted=196_000, cached=9),)), Step("Two."))
    agent = agent_for(AGENTS[dialect], [])
    assert both(agent) == ["One.", "Two."]
    assert (provider.usages[0].tokens, provider.usages[0].cached) == (196_000, 9)
    assert provider.usages[1].tokens < 100


TOML = """
side = "A title"
[[step]]
say = "I look."
think = "Hm."
do = [{read = "a.py"}, {shell = "ls"}, {edit = {path = "a.py", old = "1", new = "2"}}, {own = "search_context"},
      {raw = {tool = "x"}}]
faults = [{status = 429, message = "slow", headers = {retry-after = "2"}}, {limit = 5000}, {cut_after = 4}, {silence = true},
          {fails = {status = 529, message = "Overloaded"}}, {status = 418, body = {short = "and stout"}}]
[[step]]
say = "Done."
[[script]]
when = "Count"
step = [{say = "Three."}]
"""


def test_a_script_file_holds_the_same(tmp_path):
    """TOML and JSON are read into the values that Python writes."""
    (tmp_path / "a.toml").write_text(TOML)
    child, parent = read_scripts(tmp_path / "a.toml")
    assert (child.when, child.steps, parent.side) == ("Count", (Step("Three."),), "A title")
    first, last = parent.steps
    assert first.do == (Read("a.py"), Shell("ls"), Edit("a.py", "1", "2"), Own("search_context"), RawCall("x"))
    refusal, long, cut, silence, fails, raw = first.faults
    assert refusal == Refusal(429, "slow", {"retry-after": "2"})
    assert (long, cut, silence) == (TooLong(5_000), Turn(cut_after=4), Silence())
    assert (fails, raw) == (Turn(fails=Refusal(529, "Overloaded")), RawReply(418, {"short": "and stout"}))
    assert last == Step("Done.")
    (tmp_path / "a.json").write_text(json.dumps([{"say": "Done."}]))
    assert read_scripts(tmp_path / "a.json")[0].steps == (Step("Done."),)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[[step]]\nsays = 'x'", r"the script, step\[0\] has 'says'; known are do, faults, say, think"),
        ("[[step]]\ndo = [{walk = 'x'}]", r"do\[0\] has 'walk'; known are delegate, edit, own, raw, read, shell"),
        ("[[step]]\ndo = [{edit = {path = 'x'}}]", r"do\[0\], edit: .*missing .*'old' and 'new'"),
        ("[[step]]\ndo = [{read = 'x', shell = 'y'}]", "names 2 operations"),
        ("[[step]]\nfaults = [{cut = 3}]", r"faults\[0\]: .*'cut'"),
        ("step = 3", "'step' is int; expected a list"),
        ("step = [", "cannot be read"),
    ],
)
def test_a_mistake_in_a_script_file_is_named(tmp_path, text, words):
    """The error says where and what is known."""
    (tmp_path / "a.toml").write_text(text)
    with pytest.raises(BadInput, match=words):
        read_scripts(tmp_path / "a.toml")
