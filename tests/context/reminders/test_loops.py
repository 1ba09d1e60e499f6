"""Going in circles is seen as it happens, and only then."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foveal.context.reminders.loops import FRESH, Repeated, Trail, current_loop, update
from foveal.values.entry import Image, Message, Stored, Text, ToolCall, ToolResult, assistant, result, user


def steps(*given_steps):
    """Calls with their results: (tool, arguments, result) or with "error" as the fourth."""
    messages = []
    for n, (tool, arguments, text, *status) in enumerate(given_steps):
        messages.append(assistant("", ToolCall(f"c{n}", tool, arguments)))
        messages.append(result(f"c{n}", text, status=(status or ["ok"])[0]))
    return messages


def repetition(messages, *, polling=frozenset()):
    """The repetition in the newest of these messages."""
    trail = FRESH
    for message in messages:
        trail = update(trail, message, polling=polling)
    return current_loop(trail)


A, B, C = ("bash", '{"c": "ls"}', "a.py"), ("read", '{"p": "a.py"}', "text"), ("bash", '{"c": "pwd"}', "/")


@pytest.mark.parametrize(
    ("given_steps", "seen"),
    [
        ([], None),
        ([A], None),
        ([A, B, C], None),
        ([A, A], Repeated("same", 2, "bash")),
        ([B, A, A, A], Repeated("same", 3, "bash")),
        ([A, A, B], None),
        ([A, B, A], None),
        ([A, B, A, B], Repeated("alternating", 2, "read, bash")),
        ([C, A, B, A, B, A, B], Repeated("alternating", 3, "read, bash")),
        ([A, B, A, B, C], None),
        ([A, C, A, C], Repeated("alternating", 2, "bash")),
    ],
)
def test_circles_are_seen(given_steps, seen):
    """The same again, or two taking turns, up to the newest step."""
    got = repetition(steps(*given_steps))
    if seen and seen.circle == "alternating":
        assert got is not None
        assert (got.circle, got.times, set(got.tool.split(", "))) == (
            seen.circle,
            seen.times,
            set(seen.tool.split(", ")),
        )
    else:
        assert got == seen


def test_the_same_call_with_another_result_is_no_circle():
    """A test that is run again after an edit is progress."""
    assert repetition(steps(A, ("bash", '{"c": "ls"}', "b.py"), A)) is None


def test_writing_the_same_arguments_otherwise_is_the_same_call():
    """White space and the order of keys do not tell calls apart; what is no JSON is compared as written."""
    spaced = [("t", '{"a":1,"b":2}', "x"), ("t", '{ "b": 2, "a": 1 }', "x")]
    assert repetition(steps(*spaced)) == Repeated("same", 2, "t")
    assert repetition(steps(("t", "{a", "x"), ("t", "{a ", "x"))) is None


def test_the_same_error_from_other_arguments_is_seen():
    """Guessing at a path that is not there fails each time alike; another error, or success, is news."""
    tries = [("read", f'{{"p": {n}}}', "no such file", "error") for n in range(3)]
    assert repetition(steps(*tries)) == Repeated("error", 3, "read")
    assert repetition(steps(*tries, ("read", "{}", "permission denied", "error"))) is None
    assert repetition(steps(*tries, B)) is None
    assert repetition(steps(tries[0], tries[0], tries[1])) == Repeated("error", 3, "read")


def test_the_same_failing_call_is_the_same_call():
    """The stronger finding is told."""
    assert repetition(steps(*[("t", "{}", "boom", "error")] * 3)) == Repeated("same", 3, "t")


def test_the_users_word_ends_a_circle():
    """What the user asks for again is not the model's circle."""
    assert repetition([*steps(A, A), user("again, please"), *steps(A)]) is None


def test_words_between_calls_do_not_end_a_circle():
    """A model that explains itself each time goes round all the same."""
    one, two = steps(A), steps(A)
    assert repetition([*one, assistant("Let me look again."), *two]) == Repeated("same", 2, "bash")


def test_polling_is_no_circle():
    """Tools that are meant to be asked until something comes are left out."""
    waits = [("wait", "{}", "still running")] * 5
    assert repetition(steps(*waits), polling=frozenset(("wait",))) is None
    assert repetition(steps(*waits)) == Repeated("same", 5, "wait")


def test_parallel_calls_that_come_again_are_seen():
    """A reply with two calls, made twice, takes turns."""

    def both(n):
        calls = (ToolCall(f"{n}a", "read", "{}"), ToolCall(f"{n}b", "bash", "{}"))
        results = ToolResult(f"{n}a", (Text("x"),)), ToolResult(f"{n}b", (Text("y"),))
        return [assistant("", *calls), Message("tool", results)]

    assert repetition([*both(1), *both(2)]) == Repeated("alternating", 2, "read, bash")


def test_content_that_is_not_text_is_compared():
    """Two screenshots differ by their bytes, two large results by their hashes."""

    def shots(*datas):
        made = []
        for n, data in enumerate(datas):
            content = Stored(data, 9, 1, "h", "t") if isinstance(data, str) else Image("image/png", data)
            made += [assistant("", ToolCall(f"{n}", "look", "{}")), result(f"{n}", content)]
        return repetition(made)

    assert shots(b"1", b"2") is None is shots("s1", "s2")
    assert shots(b"1", b"1") == Repeated("same", 2, "look") == shots("s1", "s1")


def test_stray_results_and_reused_ids_change_nothing():
    """A result for no open call is not a step, and a second result for one call is not another."""
    once = steps(A)
    assert repetition([*once, once[1], result("unknown", "a.py")]) is None


PIECES = st.lists(st.sampled_from([A, B, C, ("bash", "\ud800", "\0\ud800", "error")]), max_size=12)


@given(PIECES)
def test_the_trail_is_a_small_value(pieces):
    """Kept and read back between any two messages, it finds the same, and does not grow."""
    trail = FRESH
    for message in steps(*pieces):
        trail = msgspec.json.decode(msgspec.json.encode(update(trail, message)), type=Trail)
        assert len(trail.waiting) <= 1
    assert current_loop(trail) == repetition(steps(*pieces))


@given(PIECES)
def test_a_count_is_what_a_reader_would_count(pieces):
    """`same` n times is n equal steps at the end, by plain counting."""
    got = repetition(steps(*pieces))
    run = next((n for n, step in enumerate(reversed(pieces)) if step != pieces[-1]), len(pieces))
    assert (got.times if got and got.circle == "same" else 1) == max(run, 1)


def test_calls_that_are_never_answered_are_forgotten():
    """A host that drops results does not make the trail grow."""
    trail = FRESH
    for n in range(1_000):
        trail = update(trail, assistant("", ToolCall(f"c{n}", "t", "{}")))
    assert len(trail.waiting) == 256
