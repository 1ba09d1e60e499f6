"""Fences: every field of a kind is honoured, and every decision is told."""

import tomllib

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foveal import BadInput, OverBudget
from foveal.context.fence_placement import Placed, Placer, live_fences
from foveal.context.fences import PLACEMENTS, FenceKind, FenceRegistry, Turns
from foveal.values.entry import Fence
from foveal.values.errors import BadPolicy
from foveal.values.shown import MESSAGE_TOKENS
from foveal.values.trace import block_lines


def count(text):
    """A token for every four characters, as a tokenizer might."""
    return -(-len(text) // 4)


def wrap(kind, text, attributes):
    told = "".join(f' {name}="{value}"' for name, value in attributes.items())
    return f"<{kind}{told}>{text}</{kind}>"


def fence(kind="note", text="hello", *, call=1, turn=1, key=None, attributes=()):
    return Fence(kind, text, call, turn, attributes, key)


def place(fences, registry, *, budget_tokens, count, wrap):
    return Placer(registry, count=count, wrap=wrap).place(fences, budget_tokens=budget_tokens)


def size_of(block):
    """The tokens that a block takes of the budget: those beyond a message of its own."""
    return block.tokens - MESSAGE_TOKENS


def tokens_of(got):
    return sum(map(size_of, got.blocks))


def placed(fences, *kinds, budget_tokens=1_000) -> Placed:
    return place(fences, FenceRegistry(kinds), budget_tokens=budget_tokens, count=count, wrap=wrap)


def outcomes(got):
    """What became of each fence: of the hidden ones first."""
    told = {"a newer one took its place": "replaced", "it has no text": "empty"}
    hidden = [told.get(line.because, "left_out") for line in got.hidden]
    return hidden + ["cut" if block.raw_tokens > block.tokens else "shown" for block in got.blocks]


@pytest.mark.parametrize(
    ("lifetime", "call", "turn", "lives"),
    [
        ("call", 4, 2, True),
        ("call", 5, 2, False),
        ("turn", 9, 2, True),
        ("turn", 9, 3, False),
        (Turns(3), 9, 4, True),
        (Turns(3), 9, 5, False),
        ("session", 99, 99, True),
    ],
)
def test_a_fence_lives_as_long_as_its_kind_says(lifetime, call, turn, lives):
    """One call, one turn, n turns, the session; what has had its time is told and not shown."""
    registry = FenceRegistry([FenceKind("note", lifetime=lifetime)])
    alive, gone = live_fences([fence(call=4, turn=2)], registry, call=call, turn=turn)
    assert (len(alive), [bool(because) for _, because in gone]) == ((1, []) if lives else (0, [True]))


def test_what_was_injected_before_the_request_lives_with_it():
    """A fence for the next turn is shown before that turn begins, and during it."""
    registry = FenceRegistry([FenceKind("note", lifetime="turn")])
    for turn in (2, 3):
        assert live_fences([fence(turn=3)], registry, call=9, turn=turn)[0]


def test_blocks_stand_in_the_order_of_the_prompt():
    """Placements follow one another; at one place, what stays longest comes first."""
    kinds = [FenceKind(name, placement=name, lifetime="session") for name in reversed(PLACEMENTS)]
    passing = FenceKind("passing", placement="after_system", lifetime="call")
    got = placed([fence("passing"), *(fence(kind.name) for kind in kinds)], passing, *kinds)
    assert [block.name for block in got.blocks] == ["after_system", "passing", *PLACEMENTS[1:]]
    assert [block.name for block in got.blocks if block.placement == "after_system"] == ["after_system", "passing"]


def test_a_block_carries_role_frame_and_attributes():
    """What is sent is the framed text, in the role of its kind, with its tokens."""
    registry = FenceRegistry([FenceKind("note", role="system", formatter="From {source}: {text}")])
    made = registry.fence("note", "hi", {"source": "wiki"}, call=1, turn=1)
    (block,) = place([made], registry, budget_tokens=99, count=count, wrap=wrap).blocks
    assert (block.role, block.text) == ("system", '<note source="wiki">From wiki: hi</note>')
    assert block.tokens >= count(block.text)


@pytest.mark.parametrize("text", ["", "  \n\t"])
def test_an_empty_fence_leaves_no_tags(text):
    """Nothing to say is nothing sent, not even by a formatter that adds words of its own."""
    registry = FenceRegistry([FenceKind("note", formatter="Notes:\n{text}", must_keep=True)])
    got = place([registry.fence("note", text, call=1, turn=1)], registry, budget_tokens=99, count=count, wrap=wrap)
    assert (got.blocks, outcomes(got)) == ((), ["empty"])


def test_the_newest_of_a_key_replaces_the_others():
    """One key is shown once, as it was injected last; no key stands beside others, but not twice with the same text."""
    kind = FenceKind("note")
    got = placed([fence(text="old", key="time"), fence(text="new", key="time")], kind)
    assert (outcomes(got), [block.text for block in got.blocks]) == (["replaced", "shown"], ["<note>new</note>"])
    assert outcomes(placed([fence(text="a"), fence(text="b"), fence(text="a")], kind)) == ["replaced", "shown", "shown"]


def test_a_newer_empty_one_takes_the_older_away():
    """Injecting nothing under a key is how a host takes it back."""
    got = placed([fence(text="old", key="time"), fence(text="", key="time")], FenceKind("note"))
    assert (got.blocks, outcomes(got)) == ((), ["replaced", "empty"])


def test_a_fence_is_cut_to_the_share_of_its_kind():
    """The frame stays whole, the note says how much is missing, and both sizes are told."""
    got = placed([fence(text="word " * 400)], FenceKind("note", share=0.1))
    (block,) = got.blocks
    assert size_of(block) <= 100
    assert block.text.startswith("<note>word word")
    assert block.text.endswith("of 2,000 characters left out]</note>")
    assert outcomes(got) == ["cut"]
    assert block.raw_tokens - MESSAGE_TOKENS == count("<note></note>" + "word " * 400) + 2
    assert "the share of note leaves 100 tokens" in block.because


def test_a_kind_shares_its_share():
    """Three fences of one kind take together what the kind may take; of what passes, the newest is served first."""
    texts = [letter * 300 for letter in "abc"]
    got = placed([fence(text=text) for text in texts], FenceKind("note", share=0.12))
    assert outcomes(got) == ["left_out", "cut", "shown"]
    assert tokens_of(got) <= 120


def test_a_newcomer_does_not_change_what_stays():
    """Of what lives as long as the session, the oldest is served first: its bytes were cached."""
    kind = FenceKind("rules", placement="after_system", lifetime="session", share=0.12)
    older = [fence("rules", letter * 150) for letter in "ab"]
    before = placed(older, kind).blocks
    assert placed([*older, fence("rules", "c" * 300)], kind).blocks[:2] == before


def test_what_must_be_kept_is_never_cut():
    """It is served first, whole; the others get what is left."""
    kinds = FenceKind("rules", must_keep=True), FenceKind("note")
    got = placed([fence(text="n" * 4_000), fence("rules", "r" * 2_000)], *kinds)
    assert {block.name: len(block.text) for block in got.blocks}["rules"] == 2_000 + len("<rules></rules>")
    assert (outcomes(got), got.over) == (["cut", "shown"], None)
    assert tokens_of(got) <= 1_000


def test_what_must_be_kept_and_does_not_fit_is_named_with_its_size():
    """The prompt is refused before any call, with the limit and the sizes."""
    over = placed([fence("rules", "r" * 8_000)], FenceKind("rules", must_keep=True)).over
    assert over is not None
    error = OverBudget(*over)
    assert "fences rules 2,006" in str(error)
    assert error.limit == 1_000


def test_a_share_holds_for_what_must_be_kept():
    """Cutting is forbidden and so is exceeding the share: the prompt is refused, not one of the two fields ignored."""
    kind = FenceKind("rules", must_keep=True, share=0.1)
    over = placed([fence("rules", "r" * 800)], kind).over
    assert over is not None
    assert over[0] == 100


def test_room_is_not_left_unused_for_a_system_fence():
    """A fence in the system role far from the system prompt is shown like any other."""
    got = placed([fence(text="a rule")], FenceKind("note", role="system", placement="after_result"))
    assert outcomes(got) == ["shown"]


@pytest.mark.parametrize(
    ("placement", "lifetime", "moves"),
    [
        ("tail", "call", False),
        ("after_system", "session", False),
        ("after_system", "turn", True),
        ("before_request", "session", True),
    ],
)
def test_a_kind_that_moves_the_prefix_says_so(placement, lifetime, moves):
    """Only the tail, and what stays after the system prompt for good, leave the cache alone; the trace tells of others."""
    kind = FenceKind("note", placement=placement, lifetime=lifetime)
    assert kind.moves_prefix is moves
    assert ("moves the prefix" in placed([fence()], kind).blocks[0].because) is moves


def test_every_fence_has_a_line_in_the_trace():
    """Shown, cut or hidden, with the tokens that the blocks have."""
    got = placed([fence(text="x" * 9_000), fence(text="new", key="k"), fence(text="newer", key="k")], FenceKind("note"))
    lines = [*got.hidden, *block_lines(got.blocks)]
    assert [(line.entry, line.kind, line.shown) for line in lines] == [
        ("note:k", "fence", "hidden"),
        ("note", "fence", "trimmed"),
        ("note:k", "fence", "full"),
    ]
    assert sum(line.tokens for line in lines) == sum(block.tokens for block in got.blocks)


TEXTS = st.text(alphabet=st.characters(), max_size=400) | st.text("ab \n", min_size=200, max_size=3_000)


@given(
    st.lists(st.tuples(st.sampled_from("abc"), TEXTS, st.sampled_from([None, "k"])), max_size=8),
    st.integers(0, 900),
    st.sampled_from([0.05, 0.3, 1.0]),
)
def test_fences_never_take_more_than_they_may(given_fences, budget, share):
    """Within the budget, within the share of each kind, each fence told once, tokens exact, the same again; or over."""
    kinds = (FenceKind("a", share=share), FenceKind("b", lifetime="session"), FenceKind("c", must_keep=True))
    fences = [fence(kind, text, key=key) for kind, text, key in given_fences]
    got = placed(fences, *kinds, budget_tokens=budget)
    assert len(got.hidden) + len(got.blocks) == len(fences)
    assert sum(line.tokens for line in got.hidden) == 0
    assert sum(size_of(block) for block in got.blocks if block.name[0] == "a") <= int(share * budget)
    assert got.over is not None or tokens_of(got) <= budget
    assert all(block.text.encode() for block in got.blocks)  # no lone surrogate is sent
    placer = Placer(FenceRegistry(kinds), count=count, wrap=wrap)
    placer.place(fences[:3], budget_tokens=budget)  # what it remembers changes nothing
    assert placer.place(fences, budget_tokens=budget) == got == placer.place(fences, budget_tokens=budget)


def test_a_fence_that_stays_is_counted_once():
    """The work of a call is that of its new fences."""
    counted = []
    placer = Placer(FenceRegistry([FenceKind("note")]), count=lambda text: counted.append(text) or len(text), wrap=wrap)
    stays = [fence(text=f"stays {n}") for n in range(20)]
    placer.place(stays, budget_tokens=9_999)
    placer.place([*stays, fence(text="new")], budget_tokens=9_999)
    assert len(counted) == 21


def test_the_hosts_values_are_left_as_they_were():
    """Placing changes neither the fences nor the attributes that it was given."""
    registry, attributes = FenceRegistry([FenceKind("note")]), {"b": "2", "a": "1"}
    made = registry.fence("note", "x" * 9_000, attributes, call=1, turn=1)
    place([made], registry, budget_tokens=100, count=count, wrap=lambda kind, text, given: given.clear() or text)
    assert (made.text, made.attributes, attributes) == ("x" * 9_000, (("a", "1"), ("b", "2")), {"b": "2", "a": "1"})


def test_a_function_may_format():
    """The text that is kept is the formatted one, so that a past prompt needs no function of the host's."""
    shouted = {"shouted": lambda text, attributes: f"{attributes.pop('at')}: {text.upper()}"}
    made = FenceRegistry([FenceKind("note", formatter="shouted")], shouted).fence(
        "note", "hi", {"at": "noon"}, call=1, turn=1
    )
    assert (made.text, made.attributes) == ("noon: HI", (("at", "noon"),))


@pytest.mark.parametrize(
    ("formatter", "said"),
    [
        (lambda _text, given: given["at"], "the formatter mine failed (KeyError: 'at')"),
        (lambda _text, _given: None, "the formatter mine gave NoneType where text belongs"),
        (lambda _text, _given: b"bytes", "the formatter mine gave bytes where text belongs"),
        (lambda _text, _given: " \n ", "the formatter mine gave no text"),
        (lambda _text: "one argument", "the formatter mine failed (TypeError: "),
    ],
)
def test_where_a_function_fails_the_text_stands_as_it_came(formatter, said):
    """Nothing of the content is lost; the outcome says whose doing it is, and the frame does not."""
    registry = FenceRegistry([FenceKind("note", formatter="mine")], {"mine": formatter})
    made = registry.fence("note", "{hello}", {"by": "me"}, call=1, turn=1)
    got = place([made], registry, budget_tokens=100, count=count, wrap=wrap)
    assert [block.text for block in got.blocks] == ['<note by="me">{hello}</note>']
    assert said in got.blocks[0].because


def test_what_a_function_says_when_it_fails_is_one_short_line():
    """However long its error is, and whatever it holds."""

    def failing(_text, _given):
        raise ValueError("line\n" * 100_000)

    registry = FenceRegistry([FenceKind("note", formatter="mine")], {"mine": failing})
    (block,) = place(
        [registry.fence("note", "x", call=1, turn=1)], registry, budget_tokens=100, count=count, wrap=wrap
    ).blocks
    assert len(block.because) < 250
    assert "\n" not in block.because


def test_a_function_that_nobody_gave_is_told_when_it_is_needed():
    """A policy file may name it where no host is; content that needs it is refused, with the nearest name."""
    registry = FenceRegistry([FenceKind("note", formatter="tabel")], {"table": lambda text, _: text})
    with pytest.raises(BadPolicy, match=r"fences\.note\.formatter.*Did you mean `table`"):
        registry.fence("note", "x", call=1, turn=1)
    assert registry.fence("note", " ", call=1, turn=1).text == " "


def test_content_cannot_use_the_template():
    """Braces in the content stay braces."""
    registry = FenceRegistry([FenceKind("note", formatter="{text} ({source})")])
    made = registry.fence("note", "{source} {0.__class__}", {"source": "s"}, call=1, turn=1)
    assert made.text == "{source} {0.__class__} (s)"


def test_an_unknown_kind_names_the_nearest():
    """A misspelt kind is the caller's mistake, found at once."""
    registry = FenceRegistry([FenceKind("documents")])
    for act in (lambda: registry.kind("document"), lambda: live_fences([fence("document")], registry, call=1, turn=1)):
        with pytest.raises(BadInput, match="Did you mean `documents`"):
            act()


def test_a_kind_may_be_registered_again_and_not_changed():
    """Two modules may both bring a kind, as long as they mean the same."""
    assert FenceRegistry([FenceKind("note"), FenceKind("note")]).kind("note") == FenceKind("note")
    with pytest.raises(BadPolicy, match="is there already"):
        FenceRegistry([FenceKind("note"), FenceKind("note", share=0.5)])


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"name": "No Name"}, "needs a name"),
        ({"name": "x><script"}, "needs a name"),
        ({"share": 0}, "share is 0"),
        ({"share": 1.5}, "share is 1.5"),
        ({"share": -0.1}, "share is -0.1"),
        ({"share": float("nan")}, "share is nan"),
        ({"role": "tool"}, "role is 'tool'"),
        ({"placement": "after_request_"}, "Did you mean `after_request`"),
        ({"lifetime": "2 turns"}, "lifetime is '2 turns'"),
        ({"formatter": "Nothing here"}, "no {text}"),
        ({"formatter": ""}, "no {text}"),
        ({"formatter": "{text} {0.__class__}"}, "no placeholder"),
        ({"formatter": "{text!r}"}, "no placeholder"),
    ],
)
def test_a_wrong_kind_is_refused(fields, said):
    """Each field is checked where it is given, by code or from a file."""
    with pytest.raises(BadPolicy, match=said.replace("{", r"\{")):
        FenceKind(**{"name": "note", **fields})


def test_turns_are_a_positive_number():
    """No count of turns means something else than so many turns."""
    with pytest.raises(BadPolicy, match="turns is 0"):
        Turns(0)


@pytest.mark.parametrize("name", ["text", "Source", 'a" b', ""])
def test_attribute_names_are_plain(name):
    """An attribute cannot end the tag that it stands in."""
    with pytest.raises(BadInput, match="attribute"):
        FenceRegistry([FenceKind("note")]).fence("note", "x", {name: "y"}, call=1, turn=1)


def test_a_formatter_says_which_attribute_is_missing():
    """The kind, its formatter and the nearest name are in the error."""
    registry = FenceRegistry([FenceKind("note", formatter="{source}: {text}")])
    with pytest.raises(BadInput, match=r"fence note: nothing was given for \{source\}.*sources"):
        registry.fence("note", "x", {"sources": "y"}, call=1, turn=1)


def test_kinds_are_read_from_a_policy_file():
    """All fields, and nothing that is not a field."""
    table = tomllib.loads("""
        [[fences]]
        name = "documents"
        role = "user"
        placement = "before_request"
        lifetime = { turns = 3 }
        share = 0.2
        formatter = "Found for the request:\\n{text}"

        [[fences]]
        name = "rules"
        lifetime = "session"
        must_keep = true
    """)
    documents, rules = msgspec.convert(table["fences"], tuple[FenceKind, ...])
    assert (documents.lifetime, documents.share, rules.lifetime, rules.must_keep) == (Turns(3), 0.2, "session", True)
    for wrong in ({"name": "n", "shares": 1}, {"name": "n", "lifetime": {"turn": 1}}, {"name": "n", "share": 2}):
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert(wrong, FenceKind)


def test_a_fence_survives_the_log():
    """It can be written as it is and read back the same."""
    made = fence(text="x", key="k", attributes=(("a", "1"),))
    assert msgspec.json.decode(msgspec.json.encode(made), type=Fence) == made
