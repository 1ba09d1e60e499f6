"""The verb *trace*: one line for every entry of a prompt, that says how it is shown and why, and totals that add up.

Ten cases from literals. `shown` and `atom` build the smallest parts of a view; a trace needs nothing else.
"""

from foveal.values.entry import Block, ReminderLine, Role, Setup, Text
from foveal.values.prompt import Prompt
from foveal.values.shown import MESSAGE_TOKENS, Atom, Gap, Item, Shown, Size
from foveal.values.trace import PROMPT_TOKENS, TraceLine, block_lines, framing_of, lines_of


def shown(tokens, raw=None, **why):
    """A part that takes so many tokens, of `raw` in its original."""
    return Shown(Text("…"), Size(tokens), tokens if raw is None else raw, **why)


def atom(*parts, name="a", role: Role = "user", extra=0, **item):
    """An atom of one message with these parts. `extra` tokens belong to the atom alone."""
    one = Item(1, name, role, parts, **item)
    return Atom("user", (one,), one.size + Size(extra))


def gap(first, last, entries, raw, tokens):
    """The atom of a folded range."""
    text = Gap(first, last, (9, last), entries, raw, "…", "summary", "summarise", "the oldest")
    return Atom("gap", (), Size(tokens), gap=text)


def test_an_entry_in_full_has_the_size_of_its_original():
    """Its tokens are those of its parts and of the message's framing, shown and raw alike."""
    tokens = 10 + MESSAGE_TOKENS
    assert list(lines_of([atom(shown(10))])) == [TraceLine("a", "user", "full", "", "", tokens, tokens)]


def test_a_stand_in_is_shown_with_its_policy_and_reason():
    """The line names the level, the stage that made it and why; `raw_tokens` is the original's size."""
    (line,) = lines_of([atom(shown(10, 500, level="trimmed", policy="shorten", because="it is large"))])
    assert (line.shown, line.policy, line.because) == ("trimmed", "shorten", "it is large")
    assert (line.tokens, line.raw_tokens) == (10 + MESSAGE_TOKENS, 500 + MESSAGE_TOKENS)


def test_parts_at_several_levels_are_all_named():
    """Each level and each policy once, in the order of the parts."""
    cut = shown(5, 90, level="reference", policy="clear", because="old")
    (line,) = lines_of([atom(shown(7), cut, cut)])
    assert (line.shown, line.policy, line.because) == ("full+reference", "clear", "old")


def test_a_hidden_entry_takes_nothing_and_is_still_listed():
    """Absence has a reason: thinking of another model is not sent, and the line says by whom."""
    gone = Shown(None, Size(), 40, level="hidden", policy="dialect", because="thinking of another model")
    assert list(lines_of([atom(gone)])) == [
        TraceLine("a", "user", "hidden", "dialect", "thinking of another model", 0, 40)
    ]


def test_a_pin_is_named_beside_the_level():
    """A pinned entry is in full because it is pinned."""
    (line,) = lines_of([atom(shown(10), pinned=True)])
    assert (line.shown, line.policy, line.because) == ("full", "pin", "pinned")


def test_a_repair_is_named_with_its_reason():
    """A message that was changed so that a provider accepts it says how."""
    (line,) = lines_of([atom(shown(10), repair="empty text was left out")])
    assert (line.policy, line.because) == ("repair", "empty text was left out")


def test_a_folded_range_is_one_line_for_all_its_entries():
    """Named by the reference under which it can be recalled, with the number of entries that it speaks for."""
    assert list(lines_of([gap("first", "last", 12, 9_000, 300)])) == [
        TraceLine("first..last", "range", "summary", "summarise", "the oldest", 300, 9_000, 12)
    ]


def test_tokens_of_an_atom_beyond_its_messages_are_framing():
    """Made-up results and words between replies belong to no entry; the prompt's own framing is added."""
    assert framing_of([atom(shown(10), extra=7), gap("x", "y", 2, 50, 5)]) == PROMPT_TOKENS + 7


def test_side_context_has_lines_of_its_own():
    """One for a fence, cut or whole, and one for each reminder of the reminders' block."""
    fence = Block("rules", "fence", "system", "after_system", "…", 20, raw_tokens=80)
    reminders = Block("reminders", "reminder", "user", "tail", "…", 9, said=(ReminderLine("clock", 9, "the time"),))
    assert list(block_lines([fence, reminders])) == [
        TraceLine("rules", "fence", "trimmed", "fence", "after_system", 20, 80),
        TraceLine("clock", "reminder", "full", "reminder", "the time", 9, 9),
    ]


def test_the_lines_of_a_prompt_add_up():
    """Lines, tools and framing are the prompt's tokens; the originals add up to the raw tokens in the same way."""
    atoms = (atom(shown(10), name="a"), gap("b", "k", 10, 4_000, 200), atom(shown(30, 600, level="trimmed"), extra=5))
    tokens = 50 + PROMPT_TOKENS + sum(one.size.tokens for one in atoms)
    prompt = Prompt("s", 3, {}, [], tokens, None, Setup("gpt-5", "openai_chat", "o200k", "{}", "[]", 50, 8_000), atoms)
    assert prompt.trace.tokens == prompt.tokens
    assert prompt.trace.raw_tokens - prompt.trace.tokens == (4_000 - 200) + (600 - 30)
    assert (prompt.trace.call, prompt.trace.model, prompt.trace.limit) == (3, "gpt-5", 8_000)
