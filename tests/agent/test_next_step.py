"""The loop without I/O: the next step follows from the state and the open calls, for literals that can be compared."""

from typing import Any

import msgspec
import pytest

import foveal
from foveal.agent import ApprovalRule, Limits, UserAnswer, UserQuestion, tool
from foveal.agent.next_step import Ask, Done, Hear, ReadyCall, Run, Wait, next_step
from foveal.agent.run_marks import (
    AgentTook,
    CallStarted,
    MessageQueued,
    ModelNudged,
    RunBegan,
    StatusSet,
    UserAnswered,
    UserAsked,
    mark_in,
    to_note,
)
from foveal.agent.run_state import RunState, after
from foveal.agent.tool_calls import INTERRUPTED, NO_STEPS, SKIPPED
from foveal.agent.tools import APPROVAL
from foveal.values.entry import Entry


@tool
def look(path: str) -> str:
    """Look."""
    return path


@tool(retry="never")
def pay(to: str) -> str:
    """Pay."""
    return to


@tool(may_repeat=True)
def poll() -> str:
    """Poll."""
    return ""


TOOLS = {one.name: one for one in (look, pay, poll)}
RUNNING = RunState("s", run=1, run_on_branch=1, agent="a", status="running", newest="user")
CALL = foveal.ToolCall("c1", "look", '{"path": "x"}')
KEY = "s/e1.0"
CALLED = msgspec.structs.replace(RUNNING, newest="answer", open=(("c1", KEY),), all_steps=1, calls=1)


def step(state, *calls, limits=None, rules=(), finalizes=False, at_work=()) -> Any:
    return next_step(state, calls, TOOLS, limits=limits or Limits(), rules=rules, finalizes=finalizes, at_work=at_work)


def having(state, **changed):
    return msgspec.structs.replace(state, **changed)


def refusal(step):
    (one,) = step.refused
    return one.text, one.status


def test_the_model_is_asked_after_the_user_has_spoken():
    """With the number of steps that it has left."""
    assert step(RUNNING) == Ask(80)


def test_an_answer_ends_the_run():
    """A reply without calls is the answer."""
    assert step(having(RUNNING, newest="answer", answer="42")) == Done("completed", "42")


def test_a_call_is_run_under_its_key():
    """The key is made of the entry, and is the same after a crash."""
    assert step(CALLED, CALL) == Run((ReadyCall(CALL, KEY, look),))


def test_an_unknown_tool_is_answered_with_the_nearest_name():
    """The model learns which tools there are."""
    text, status = refusal(step(CALLED, foveal.ToolCall("c1", "lock", "{}")))
    assert (text, status) == ("There is no tool 'lock'. Did you mean look?", "error")


def test_a_call_that_was_started_is_run_again():
    """With the same key, so that the tool can tell."""
    again = step(having(CALLED, started=frozenset({KEY})), CALL)
    assert isinstance(again, Run)
    assert again.ready[0].key == KEY


def test_a_tool_that_must_not_run_twice_is_not():
    """After a crash in the middle of it, the model is told that it was interrupted."""
    call = foveal.ToolCall("c1", "pay", '{"to": "x"}')
    assert refusal(step(having(CALLED, started=frozenset({KEY})), call)) == (INTERRUPTED, "interrupted")
    assert step(CALLED, call).refused == ()


def test_a_tool_that_must_not_run_twice_is_waited_for_while_it_is_at_work():
    """It has begun before a pause, and goes on in this program; a rule that denies it now takes nothing back."""
    call, begun = foveal.ToolCall("c1", "pay", '{"to": "x"}'), having(CALLED, started=frozenset({KEY}))
    waiting = step(begun, call, at_work={KEY})
    assert waiting == Run((ReadyCall(call, KEY, pay, is_at_work=True),))
    denied = step(begun, call, at_work={KEY}, rules=(ApprovalRule("pay", verdict="deny"),))
    assert refusal(denied) == (INTERRUPTED, "interrupted")


def test_the_last_step_must_be_an_answer():
    """With one step left no call is allowed; without any, the run has failed."""
    assert step(having(RUNNING, all_steps=79)) == Ask(1, is_last=True)
    assert refusal(step(having(CALLED, all_steps=80), CALL)) == (NO_STEPS, "error")
    assert step(having(RUNNING, newest="tool", all_steps=80)) == Done("failed", "", "no answer within 80 steps")


def test_checkpoints_give_steps_back_but_not_for_ever():
    """At most `max_steps` times one more than `max_checkpoints` replies."""
    limits = Limits(max_steps=10, max_checkpoints=2)
    assert step(having(RUNNING, all_steps=13, renewed_at=(0, 10)), limits=limits) == Ask(7)
    assert step(having(RUNNING, all_steps=29, renewed_at=(0, 10, 20, 25, 28, 29)), limits=limits) == Ask(
        1, is_last=True
    )
    assert isinstance(step(having(RUNNING, all_steps=30, renewed_at=(0, 10, 20, 25, 28, 30)), limits=limits), Done)


def test_the_same_call_again_and_again_is_refused():
    """After five times; a tool that polls may go on; after ten, the model must answer."""
    circling = having(CALLED, repeated={"c1": 6})
    assert "6 times in a row" in refusal(step(circling, CALL))[0]
    assert step(circling, foveal.ToolCall("c1", "poll", "{}")).refused == ()
    assert step(having(RUNNING, newest="tool", repeated={"c1": 10})).is_last


def test_too_many_calls_end_in_an_answer():
    """The bound of a run's calls leaves one more reply."""
    assert step(having(RUNNING, newest="tool", calls=300)).is_last


def test_calls_beyond_the_bound_are_refused():
    """Also those of one reply."""
    made = [foveal.ToolCall(f"c{n}", "look", f'{{"path": "{n}"}}') for n in range(4)]
    keys = tuple((call.id, f"s/e.{n}") for n, call in enumerate(made))
    found = step(having(RUNNING, newest="answer", open=keys, calls=6), *made, limits=Limits(max_calls=4))
    assert [one.call.id for one in found.ready] == ["c0", "c1"]
    assert {one.text for one in found.refused} == {
        "[not run: 4 calls are the limit of a run. Answer with the results that you have.]"
    }


@pytest.mark.parametrize("name", ["look", "gone"])
def test_a_call_that_has_begun_is_never_told_as_not_run(name):
    """Although the user has said something since, or its tool is no longer there: the model would repeat its effect."""
    begun = having(CALLED, started=frozenset({KEY}), steering=(MessageQueued("Wait.", is_steering=True),))
    call = foveal.ToolCall("c1", name, "{}")
    assert refusal(step(begun, call)) == (INTERRUPTED, "interrupted")


def test_no_tool_runs_for_the_final_answer():
    """A model that calls one all the same is asked once more; then its last words are the answer."""
    asked = having(CALLED, nudges={"final": 1}, answer="Draft.")
    assert refusal(step(asked, CALL, finalizes=True)) == (NO_STEPS, "error")
    heard = having(asked, newest="tool")
    assert step(heard, finalizes=True) == Ask(79, is_last=True, nudge="final")
    assert step(having(heard, nudges={"final": 2}), finalizes=True) == Done("completed", "Draft.")


def test_calls_that_nobody_can_take_end_the_run():
    """A model that has lost the format of calls does not find it again."""
    assert step(having(RUNNING, newest="tool", malformed=4)).status == "failed"


def test_open_todos_are_pointed_out_once():
    """A model that stops too early is told so, and may then stop."""
    stopped = having(RUNNING, newest="answer", answer="done", todos=({"content": "mend"}, {"content": "look"}))
    assert step(stopped) == Ask(80, nudge="todos")
    assert step(having(stopped, nudges={"todos": 1})) == Done("completed", "done")


def test_a_thin_answer_is_asked_for_again_where_that_is_wanted():
    """Once, and only of agents whose limits say so."""
    thin = having(RUNNING, newest="answer", answer="yes")
    assert step(thin, limits=Limits(thin_answer=200)) == Ask(80, nudge="thin")
    assert step(having(thin, nudges={"thin": 1}), limits=Limits(thin_answer=200)).status == "completed"
    assert step(thin).status == "completed"


def test_the_final_answer_is_the_outcome_however_short():
    """It was asked for in the agent's own words: "in one word". Neither its length nor open todos ask for another one."""
    final = having(RUNNING, newest="answer", answer="yes", todos=({"content": "mend"},), nudges={"final": 1})
    assert step(final, limits=Limits(thin_answer=200), finalizes=True) == Done("completed", "yes")


def test_a_final_answer_that_was_cut_off_is_gone_on_with():
    """Without tools, and whatever steps are left, as it was asked for."""
    final = having(RUNNING, newest="cut_off", all_steps=80, nudges={"final": 1})
    assert step(final, finalizes=True) == Ask(1, is_last=True, nudge="cut_off")
    assert step(having(final, nudges={"final": 1, "cut_off": 3}), finalizes=True).status == "failed"


def test_a_reply_that_was_cut_off_is_continued():
    """The words that came are shown, and the model is told to go on."""
    assert step(having(RUNNING, newest="cut_off")) == Ask(80, nudge="cut_off")


def test_steering_comes_before_everything():
    """Calls that have not begun are left out, and the words are heard next."""
    steered = having(CALLED, steering=("stop that", "and this"))
    assert refusal(step(steered, CALL)) == (SKIPPED, "error")
    assert step(steered) == Hear(steering=1)
    assert step(steered, limits=Limits(queued_at_once=9)) == Hear(steering=2)


def test_a_follow_up_comes_after_the_answer():
    """The run goes on with it."""
    answered = having(RUNNING, newest="answer", answer="42", following=("and now?",))
    assert step(answered) == Hear(following=1)
    assert step(having(RUNNING, following=("and now?",))) == Ask(80)


ASK = (ApprovalRule("look", {"path": r"^/etc"}, reason="outside"), ApprovalRule("pay", verdict="deny", reason="never"))
ETC = foveal.ToolCall("c1", "look", '{"path": "/etc/passwd"}')
QUESTION = UserQuestion(
    KEY + APPROVAL, "approval", "outside", ("allow", "deny", "edit", "always"), "look", ETC.arguments, "s#1"
)


def test_a_rule_makes_a_call_wait():
    """By tool and by a pattern of the arguments; other calls are not held up."""
    assert step(CALLED, ETC, rules=ASK) == Wait((QUESTION,))
    assert isinstance(step(CALLED, CALL, rules=ASK), Run)


def test_what_can_be_done_is_done_before_the_run_waits():
    """Of two calls, the one that nobody has to allow runs first."""
    both = having(CALLED, open=(("c1", KEY), ("c2", "s/e1.1")))
    other = foveal.ToolCall("c2", "look", '{"path": "y"}')
    assert [one.call.id for one in step(both, ETC, other, rules=ASK).ready] == ["c2"]


@pytest.mark.parametrize("answer", [UserAnswer(decision="allow"), UserAnswer(decision="always")])
def test_an_allowed_call_is_run(answer):
    """Once, or always."""
    assert step(having(CALLED, answers={KEY + APPROVAL: answer}), ETC, rules=ASK).ready[0].call == ETC


def test_a_tool_that_is_always_allowed_is_not_asked_about():
    """For the rest of the session."""
    assert step(having(CALLED, always=frozenset({"agent/look"}), agent="agent"), ETC, rules=ASK).ready[0].call == ETC


def test_a_decision_about_a_call_counts_before_one_about_its_tool():
    """Whoever denies a call, or edits it, and then allows the tool always, has said what is to become of that call."""
    state = having(CALLED, always=frozenset({"agent/look"}), agent="agent")
    denied = having(state, answers={KEY + APPROVAL: UserAnswer("never", "deny", source="user")})
    assert refusal(step(denied, ETC, rules=ASK)) == ("[denied by the user: never]", "error")
    edited = having(state, answers={KEY + APPROVAL: UserAnswer(decision="edit", arguments={"path": "/etc/hosts"})})
    assert step(edited, ETC, rules=ASK).ready[0].call.arguments == '{"path":"/etc/hosts"}'


def test_arguments_that_the_tool_cannot_take_leave_the_question_open():
    """It is asked again, with what is wrong with them, and answered by the next decision."""
    edit = UserAnswer(decision="edit", arguments={"paht": "/etc/hosts"})
    (again,) = step(
        having(CALLED, answers={KEY + APPROVAL: edit}, times_asked={KEY + APPROVAL: 1}), ETC, rules=ASK
    ).questions
    assert (again.id, again.arguments) == (f"{KEY}{APPROVAL}?2", ETC.arguments)
    assert again.text.startswith("outside Not with the new arguments: look was not run: Object contains unknown field")
    waiting = states(*BEGAN, *marks(UserAsked(again)))
    assert step(having(waiting, newest="answer", open=CALLED.open), ETC, rules=ASK) == Wait((again,))


def test_arguments_that_a_rule_denies_leave_the_question_open():
    """Whoever edits a call cannot pass over a rule that would deny it; the question is asked again, with the reason."""
    rules = (ApprovalRule("look", {"path": "^/root"}, "deny", "never there"), *ASK)
    edit = UserAnswer(decision="edit", arguments={"path": "/root/x"})
    (again,) = step(
        having(CALLED, answers={KEY + APPROVAL: edit}, times_asked={KEY + APPROVAL: 1}), ETC, rules=rules
    ).questions
    assert (again.id, again.arguments) == (f"{KEY}{APPROVAL}?2", ETC.arguments)
    assert again.text == "outside Not with the new arguments: a rule denies them: never there"


def test_a_denial_is_a_result_with_its_reason():
    """The user's, or the rule's; an answer that decides nothing is a denial."""
    denied = having(CALLED, answers={KEY + APPROVAL: UserAnswer("not there", "deny")})
    assert refusal(step(denied, ETC, rules=ASK)) == ("[denied by the user: not there]", "error")
    unclear = having(CALLED, answers={KEY + APPROVAL: UserAnswer("hm")})
    assert refusal(step(unclear, ETC, rules=ASK))[0] == "[denied by the user: hm]"
    assert refusal(step(CALLED, foveal.ToolCall("c1", "pay", "{}"), rules=ASK))[0] == "[denied by a rule: never]"


def test_edited_arguments_are_run_and_told():
    """The model learns with which arguments its call was made."""
    edit = UserAnswer(decision="edit", arguments={"path": "/srv"})
    (ready,) = step(having(CALLED, answers={KEY + APPROVAL: edit}), ETC, rules=ASK).ready
    assert ready.call.arguments == '{"path":"/srv"}'
    assert "/srv" in ready.note


def test_nobody_is_asked_about_a_call_that_no_tool_can_take():
    """The model is told what is wrong with it, as if nobody had to allow it; a call that it mends is asked about."""
    (one,) = step(CALLED, foveal.ToolCall("c1", "look", '{"file": "x"}'), rules=(ApprovalRule("look"),)).refused
    assert one.is_malformed
    assert one.text.startswith("look was not run: Object contains unknown field `file`")


def test_an_ended_run_does_nothing():
    """Whatever is asked of it."""
    assert step(having(CALLED, status="cancelled", reason="enough"), CALL) == Done("cancelled", "", "enough")


def test_limits_are_checked():
    """A limit that makes no sense is told when it is written."""
    with pytest.raises(foveal.BadInput, match="max_steps is 0"):
        Limits(max_steps=0)


def test_a_pattern_that_is_none_is_told():
    """When the rule is made."""
    with pytest.raises(foveal.BadInput, match="is no pattern"):
        ApprovalRule("look", {"path": "("})


def states(*bodies):
    """The state after these entries."""
    state = RunState("s")
    for seq, body in enumerate(bodies, 1):
        state = after(state, seq, Entry(f"e{seq}", None, 0, "agent", body))
    return state


def marks(*given):
    return [to_note(mark) for mark in given]


BEGAN = marks(RunBegan(1, "a"), StatusSet("running", 1, "a"))


def test_the_state_follows_from_the_log():
    """Replies, calls, marks and usage, one entry after the other."""
    reply = foveal.assistant("I look.", CALL, foveal.ToolCall("c2", "look", '{"path": "y"}'))
    state = states(
        *BEGAN, foveal.user("Hi."), reply, foveal.Usage("gpt-5", 10, 2), *marks(CallStarted("c1", "s/e4.1", "look"))
    )
    assert (state.id, state.status, state.newest, state.all_steps, state.calls) == ("s#1", "running", "answer", 1, 2)
    assert state.open == (("c1", "s/e4.1"), ("c2", "s/e4.2"))
    assert state.started == {"s/e4.1"}
    assert state.usage["gpt-5"].input_tokens == 10


def test_two_calls_of_one_id_have_keys_of_their_own():
    """The last ones are those without results, as the view answers the first ones first."""
    state = states(*BEGAN, foveal.assistant("", CALL, CALL))
    assert state.keys_of([CALL, CALL]) == ["s/e3.0", "s/e3.1"]
    assert state.keys_of([CALL]) == ["s/e3.1"]


def test_repetition_is_counted_by_value():
    """The same arguments in another order are the same call; a message of the user ends the count."""
    ways = ['{"a": 1, "b": 2}', '{"b":2,"a":1}']
    replies = [foveal.assistant("", foveal.ToolCall(f"c{i}", "look", ways[i % 2])) for i in range(4)]
    assert states(*BEGAN, *replies).repeated == {"c3": 4}
    assert states(*BEGAN, *replies, foveal.user("Stop.")).repeated == {}


def test_repetition_is_counted_for_each_call_of_a_reply():
    """Calls beside each other do not hide one another, and one that was made once is not refused for the others."""
    pair = [foveal.ToolCall(name, "look", f'{{"path": "{name}"}}') for name in ("a", "b")]
    again = [foveal.ToolCall(f"a{n}", "look", '{"path": "a"}') for n in range(3)]
    state = states(
        *BEGAN, foveal.assistant("", *pair), foveal.assistant("", *pair), foveal.assistant("", pair[1], *again)
    )
    assert state.repeated == {"b": 3, "a0": 3, "a1": 4, "a2": 5}


def test_an_agent_that_takes_over_has_its_own_bounds():
    """Steps and calls of the agent before it are not its own."""
    said = foveal.assistant("", CALL)
    state = states(*BEGAN, *[said] * 7, foveal.result("c1", "seen"), *marks(AgentTook("expert")))
    assert (state.all_steps, state.renewed_at, state.calls) == (7, (7,), 0)
    assert step(state, limits=Limits(max_steps=5)) == Ask(5)


def test_the_words_of_a_run_are_not_those_of_the_run_before():
    """A run that fails before its first reply has said nothing."""
    before = [*BEGAN, foveal.assistant("Paris."), *marks(StatusSet("completed", 1, "a"))]
    assert states(*before, *marks(RunBegan(2, "a")), foveal.user("More.")).answer == ""


def test_an_answer_closes_its_question_alone():
    """And an answer to a question that nobody asks any more changes nothing."""
    one, two = (UserQuestion(key, "question", "?", tool="look") for key in ("k1", "k2"))
    asked = states(*BEGAN, *marks(UserAsked(one), UserAsked(two), UserAnswered("k1", UserAnswer("a"))))
    assert list(asked.asked) == ["k2"]
    assert asked.answers["k1"].text == "a"
    assert states(*BEGAN, *marks(UserAnswered("k9", UserAnswer("a", "always")))).always == frozenset()
    allowed = msgspec.structs.replace(one, kind="approval")
    always = UserAnswered("k1", UserAnswer("", "always"))
    assert states(*BEGAN, *marks(UserAsked(allowed), always)).always == {"a/look"}
    assert states(*BEGAN, *marks(UserAsked(one), always)).always == frozenset(), "a question is no call to be allowed"


def test_another_run_begins_afresh():
    """Steps, nudges and usage are a run's own; the queue, the inbox and tools that were allowed for good stay."""
    before = [*BEGAN, foveal.assistant("done"), *marks(ModelNudged("todos"), StatusSet("completed", 1, "a"))]
    state = states(*before, *marks(RunBegan(2, "a")), foveal.user("More."))
    assert (state.run, state.status, state.all_steps, dict(state.nudges), state.turn) == (2, "pending", 0, {}, 1)


def test_a_mark_of_another_kind_is_no_mark():
    """Notes of people, and marks of a newer Foveal, are passed over."""
    assert mark_in(foveal.Note("foveal run")) is None
    assert mark_in(foveal.Note('foveal run {"is":"teleported"}')) is None
    assert states(*BEGAN, foveal.Note("remember the milk")).status == "running"
