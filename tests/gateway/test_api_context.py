"""Side context and children through the HTTP API: the library's verbs, with the same effect on prompts."""

import json
from base64 import b64encode
from collections.abc import Iterator
from typing import Any

import pytest

from foveal.stores import Store
from foveal.testing.provider import ScriptedProvider

from .api_client import ApiClient
from .conftest import Gateways, RunningGateway

POLICY = {
    "budget": {"limit": 20_000},
    "remind": True,
    "fences": [{"name": "plan", "lifetime": "session"}],
}
TOOLS = [{"name": name, "description": "A tool.", "parameters": {"type": "object"}} for name in ("read", "write")]


def said(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


@pytest.fixture
def gateway(start: Gateways) -> RunningGateway:
    return start()


@pytest.fixture
def api(gateway: RunningGateway) -> Iterator[ApiClient]:
    with ApiClient(gateway) as client:
        client.ask("create", name="work", model="gpt-5", policy=POLICY)
        client.ask("append", "work", item=said("Mend the tests."))
        yield client


def sent(api: ApiClient, name: str = "work", **given: Any) -> str:
    return json.dumps(api.ask("prompt", name, **given)["request"])


def test_content_is_put_beside_the_conversation_and_taken_away(api: ApiClient) -> None:
    """A fence is in every prompt until a blank text removes it; a kind that the policy does not name is refused."""
    kept = api.ask("inject", "work", kind="plan", text="First the parser.", key="now", attributes={"by": "host"})
    assert kept["id"]
    assert "First the parser." in sent(api)
    api.ask("inject", "work", kind="plan", text="", key="now")
    assert "First the parser." not in sent(api)
    assert api.refused("inject", "work", kind="nothing", text="x")[:2] == (400, "BadInput")
    assert api.refused("inject", "work", kind="plan", text="x", attributes={"key": "y"})[:2] == (400, "BadInput")


def test_a_reminder_is_in_one_prompt(api: ApiClient) -> None:
    """It is gone with the call after it; where the policy has no reminders, it is refused."""
    assert api.ask("remind", "work", text="The branch is frozen.") == {}
    assert "The branch is frozen." in sent(api)
    reply = {"choices": [{"message": {"role": "assistant", "content": "I see."}}]}
    api.ask("extend", "work", items=[reply, said("Go on.")])
    assert "The branch is frozen." not in sent(api)
    api.ask("create", name="plain", model="gpt-5")
    assert api.refused("remind", "plain", text="x")[:2] == (400, "BadInput")


def test_a_file_is_given_as_bytes(api: ApiClient) -> None:
    """A small text is shown whole; of a large one the outline is, and the rest can be recalled. No path of ours is named."""
    small = api.ask("attach", "work", name="notes.txt", data=b64encode(b"Buy milk.").decode())
    assert (small["kind"], small["size_bytes"], small["is_whole"]) == ("text", 9, True)
    text = "".join(f"line {number} of the log\n" for number in range(20_000))
    large = api.ask("attach", "work", name="big.log", data=b64encode(text.encode()).decode())
    assert not large["is_whole"]

    shown = sent(api)
    assert "Buy milk." in shown
    assert "uploads/" not in shown
    assert "line 19999 of the log" in api.ask("recall", "work", ref=large["id"])["text"]
    assert api.refused("attach", "work", name="x", data="no base64!")[:2] == (400, "BadInput")


def test_a_child_knows_its_task_and_what_it_is_given(api: ApiClient, gateway: RunningGateway, store: Store) -> None:
    """Not its parent's words; the originals that are named for it; its own tools alone, also when it is opened again."""
    secret = api.ask("append", "work", item=said("The password is swordfish."))
    given = api.ask("append", "work", item=said("The table of results: 1 2 3."))
    card = api.ask("children", "work", name="scout", task="Look around.", tools=["read"], refs=[given["id"]])
    name = "work/scout"
    assert card["id"] == name
    gateway.gateway.conversations.rest()

    for _ in range(2):
        prompt = api.ask("prompt", name, tools=TOOLS)
        shown = json.dumps(prompt["request"])
        assert "Look around." in shown
        assert "swordfish" not in shown
        assert given["id"][:10] in shown
        assert '"read"' in shown
        assert '"write"' not in shown
        api.ask("create", name=name, model="gpt-5")
    assert api.refused("recall", name, ref=secret["id"])[0] == 404
    assert "1 2 3" in sent(api, name)
    assert api.refused("children", "work", name="a/b", task="x")[:2] == (400, "BadInput")
    assert set(api.ask("delete", "work")["sessions"]) == {"work", name}


def test_a_child_is_its_parents_keys_alone(gateway: RunningGateway, provider: ScriptedProvider) -> None:
    """It is found under the caller's own name for it, and by nobody else."""
    with ApiClient(gateway, x_api_key="one") as one, ApiClient(gateway, x_api_key="two") as two:
        one.ask("create", name="work", model="gpt-5")
        card = one.ask("children", "work", name="scout", task="Look.")
        assert one.ask("get", "work/scout")["id"] == card["id"]
        for name in ("work/scout", card["id"]):
            assert two.refused("why", name)[0] == 404
        assert two.refused("children", "work", name="scout", task="Look.")[0] == 404
