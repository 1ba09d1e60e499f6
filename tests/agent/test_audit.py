"""The audit trail: who decided what, from the log alone, without secrets."""

import asyncio
import json

import msgspec
import pytest

from foveal import Policy
from foveal.agent import ApprovalRule, Limits, Runs, UserAnswer, tool
from foveal.agent.audit import audit_file, audit_trail, audited

from .conftest import FakeModel, agent_with, calls, collect, says

KEY = "sk-" + "proj-" + "a1B2c3D4e5F6g7H8i9J0k1L2"


@tool
def look(path: str) -> str:
    """Look."""
    return f"content of {path}"


@tool
def remove(path: str) -> str:
    """Remove."""
    return f"removed {path}"


RULES = [ApprovalRule("look", {"path": "^/etc"}, "deny", "not there"), ApprovalRule("remove")]


def told(store, run="s"):
    return [(one.actor, one.action, one.decision.outcome) for one in audit_trail(store, run)]


def test_every_decision_of_a_run_is_told_with_its_actor(store):
    """Calls that a rule, the user or nobody allowed; models; the end. Costs are those of the model calls."""
    model = FakeModel(
        says("", ("look", {"path": "a"}), ("look", {"path": "/etc"}), ("lok", {})),
        calls("remove", path="a"),
        calls("remove", path="b"),
        says("Done."),
    )
    agent = agent_with(model, look, remove, approvals=RULES)

    async def talk():
        await agent.run("Go.", session="s", store=store)
        runs = Runs(store, [agent])
        for decision in ("allow", "deny"):
            await runs.resume("s", UserAnswer("no" if decision == "deny" else "", decision))
            await runs.wait("s")

    asyncio.run(talk())
    records = list(audit_trail(store, "s"))
    found = [one for one in told(store) if one[1] != "model.call"]
    assert found[:2] == [("user", "run.start", "started"), ("agent", "model.select", "gpt-5")]
    assert sorted(found[2:5]) == [
        ("policy", "tool.allow", "allowed"),
        ("policy", "tool.deny", "denied"),
        ("policy", "tool.deny", "denied"),
    ]
    assert found[5:] == [
        ("agent", "wait_user.request", "waits"),
        ("user", "wait_user.answer", "allow"),
        ("user", "run.resume", "running"),
        ("user", "tool.allow", "allowed"),
        ("agent", "wait_user.request", "waits"),
        ("user", "wait_user.answer", "deny"),
        ("user", "run.resume", "running"),
        ("user", "tool.deny", "denied"),
        ("agent", "run.end", "completed"),
    ]
    costs = [one.cost_usd for one in records if one.action == "model.call"]
    assert len(costs) == 4
    assert sum(cost or 0.0 for cost in costs) == pytest.approx(Runs(store).cost("s").total_usd)
    assert len({one.id for one in records}) == len(records)


def test_a_timeout_is_nobodys_decision(store):
    """Neither the user's nor a rule's."""
    agent = agent_with(
        FakeModel(calls("remove", path="a"), says("Well.")),
        remove,
        approvals=RULES[1:],
        limits=Limits(question_s=0.0001),
    )

    async def talk():
        await agent.run("Go.", session="s", store=store)
        await Runs(store, [agent]).wait("s")

    asyncio.run(talk())
    assert ("timeout", "wait_user.answer", "deny") in told(store)
    assert not any(action == "tool.allow" for _, action, _ in told(store))


def test_secrets_are_in_no_record(store, tmp_path):
    """Arguments, reasons and questions are redacted before anything is written; the log itself is another matter."""
    model = FakeModel(calls("remove", path=f"token {KEY}"), says("Done."))
    agent = agent_with(model, remove, approvals=[ApprovalRule("remove", {}, "ask", f"with {KEY}?")])

    async def talk():
        runs = Runs(store, [agent])
        run = await runs.start(agent, "Go.", session="s")
        await collect(audited(runs.observe(run), audit_file(tmp_path / "audit.jsonl")))
        await runs.resume("s", UserAnswer(f"not {KEY}", "deny"))
        await runs.wait("s")

    asyncio.run(talk())
    whole = msgspec.json.encode(list(audit_trail(store, "s"))).decode()
    assert "[redacted" in whole
    assert KEY not in whole
    assert KEY not in (tmp_path / "audit.jsonl").read_text()
    assert KEY in msgspec.json.encode(list(audit_trail(store, "s", redact=str))).decode()


def test_a_live_trail_is_the_trail_of_the_log(store, tmp_path):
    """The same records under the same ids, in the file and for a callback; events pass through."""
    seen = []
    model = FakeModel(calls("look", path="a"), says("Done."))
    agent = agent_with(model, look)

    async def talk():
        runs = Runs(store, [agent])
        run = await runs.start(agent, "Go.", session="s")
        return await collect(audited(runs.observe(run), seen.append, audit_file(tmp_path / "audit.jsonl")))

    events = asyncio.run(talk())
    assert type(events[-1]).__name__ == "RunEnded"
    assert seen == list(audit_trail(store, "s"))
    lines = (tmp_path / "audit.jsonl").read_text().splitlines()
    assert [json.loads(line)["id"] for line in lines] == [one.id for one in seen]


def test_a_sink_that_fails_does_not_touch_the_run(store):
    """The reader of the events gets its error."""
    agent = agent_with(FakeModel(calls("look", path="a"), says("Done.")), look)

    def broken(record):
        raise OSError("the disk is full")

    async def talk():
        runs = Runs(store, [agent])
        run = await runs.start(agent, "Go.", session="s")
        with pytest.raises(OSError, match="full"):
            await collect(audited(runs.observe(run), broken))
        return await runs.wait(run)

    assert asyncio.run(talk()).status == "completed"


class Refused(Exception):
    """A provider's refusal."""

    def __init__(self, status_code, said):
        super().__init__(said)
        self.status_code = status_code


def test_sub_agents_are_in_the_trail(store):
    """Below the call that began them, with the run above."""
    below = agent_with(FakeModel(says("x" * 300)), name="looker")
    agent = agent_with(FakeModel(calls("delegate", task="x"), says("Done.")), agents=[below])
    asyncio.run(agent.run("Go.", session="s", store=store))
    records = list(audit_trail(store, "s#1"))
    (delegated,) = [one for one in records if one.action == "run.delegate"]
    (started,) = [one for one in records if one.action == "run.start" and one.parent]
    assert (started.parent, started.run) == ("s#1", delegated.evidence["child"])


def test_refusals_of_providers_are_in_the_trail(store):
    """A fallback with its reason, a prompt that was too long with the limit that was learned."""
    too_long = "maximum context length is 3000 tokens. However, your messages resulted in 4000 tokens."
    replies = [Refused(401, "no key"), Refused(400, too_long)]
    agent = agent_with(FakeModel(by=lambda request: replies.pop(0)), look, fallbacks=["gpt-5-mini"])
    asyncio.run(agent.run("Go.", session="s", store=store))
    by_action = {one.action: one for one in audit_trail(store, "s")}
    assert by_action["model.fallback"].decision.outcome == "gpt-5-mini"
    assert "no key" in by_action["model.fallback"].decision.reason
    assert (by_action["context.overflow"].actor, by_action["context.overflow"].evidence["limit"] > 0) == (
        "provider",
        True,
    )


def test_arguments_that_the_user_changed_are_told_as_they_ran(store):
    """The model's own were not: whoever reads the trail must not take them for the deed."""
    agent = agent_with(FakeModel(calls("remove", path="a"), says("Done.")), remove, approvals=RULES[1:])

    async def talk():
        await agent.run("Go.", session="s", store=store)
        runs = Runs(store, [agent])
        await runs.approve("s", "edit", arguments={"path": "b"})
        await runs.resume("s")
        await runs.wait("s")

    asyncio.run(talk())
    (allowed,) = [one for one in audit_trail(store, "s") if one.action == "tool.allow"]
    assert (allowed.actor, allowed.decision.reason) == ("user", "edit")
    assert json.loads(allowed.evidence["arguments"]) == {"path": "b"}


def test_notes_that_the_model_keeps_are_told(store):
    """With the words and the key; one that it forgets, too. A search that finds nothing is no denial."""
    model = FakeModel(
        calls("remember_context", text="Ann likes blue", key="colour"),
        calls("remember_context", text="", key="colour"),
        calls("remember_context", text="", key="size"),
        calls("recall_context", ref="zzz"),
        says("Done."),
    )
    agent = agent_with(model, policy=Policy(memory="ann"))
    asyncio.run(agent.run("Go.", session="s", store=store))
    written = [one for one in audit_trail(store, "s") if one.action == "memory.write"]
    assert [(one.actor, one.decision.outcome) for one in written] == [("model", "kept"), ("model", "forgotten")]
    assert json.loads(written[0].evidence["arguments"]) == {"text": "Ann likes blue", "key": "colour"}
    assert "tool.deny" not in {one.action for one in audit_trail(store, "s")}
