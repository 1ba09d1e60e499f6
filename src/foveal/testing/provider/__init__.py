"""A scripted provider, for tests of programs that call models: a real HTTP server on this machine, without network or key.

    from foveal.testing.provider import Call, Refusal, ScriptedProvider, Turn

    with ScriptedProvider() as provider:
        provider.script(Turn("", (Call("c1", "read", {"path": "a.py"}),)), Refusal(429, "slow down"), Turn("Done."))
        client = openai.OpenAI(base_url=f"{provider.url}/v1", api_key="any")
        ...
        assert provider.last.body["messages"][-1]["content"] == "..."

`provider.play(Step(do=(Read("a.py"),)), Step("Done."))` is a script in operations, for agents whose tools have any names.
`python -m foveal.testing.provider PROGRAM.py` runs a program against one that improvises, and `--port N` a server on its own.
"""

from foveal.testing.provider.cache import CallUsage, InputBill
from foveal.testing.provider.replies import Call, RawReply, Refusal, Silence, TooLong, Turn
from foveal.testing.provider.script import Delegate, Edit, Own, RawCall, Read, Script, Shell, Step, read_scripts
from foveal.testing.provider.server import ReceivedRequest, Scripted, ScriptedProvider

__all__ = [
    "Call",
    "CallUsage",
    "Delegate",
    "Edit",
    "InputBill",
    "Own",
    "RawCall",
    "RawReply",
    "Read",
    "ReceivedRequest",
    "Refusal",
    "Script",
    "Scripted",
    "ScriptedProvider",
    "Shell",
    "Silence",
    "Step",
    "TooLong",
    "Turn",
    "read_scripts",
]
