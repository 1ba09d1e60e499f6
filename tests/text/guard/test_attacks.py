"""Nobody forges the frame: every attack in every sink, judged by a reader that shares no code with the package."""

import pytest

from foveal.text.guard import neutralise, restore, tags
from foveal.text.shorten.allowance import Allowance
from foveal.text.shorten.choose import trim

from .attacks import attacks
from .parser import forged, found
from .sinks import NONCE, SINKS

ATTACKS = tuple(attacks(2_000))


def test_the_reader_recognises_every_attack() -> None:
    """The independent reader finds each attack live before it is neutralised."""
    assert [attack for attack in ATTACKS if not found(attack)] == []


def test_the_package_recognises_every_attack() -> None:
    """`tags` finds what the independent reader finds."""
    assert [attack for attack in ATTACKS if not tags(attack)] == []


@pytest.mark.parametrize("sink", SINKS)
def test_no_attack_is_live_in_any_sink(sink: str) -> None:
    """1 000 attacks in each sink leave no tag that the independent reader takes for the host's."""
    shown = ((attack, SINKS[sink](attack)) for attack in ATTACKS[:1_000])
    assert [(attack, text) for attack, text in shown if forged(text, NONCE)] == []


def test_every_attack_can_be_read_back() -> None:
    """Neutralised text is restored to the byte, once and twice over."""
    for attack in ATTACKS:
        once = neutralise(attack)
        assert once != attack
        assert restore(once) == attack
        assert restore(restore(neutralise(once))) == attack


def test_attacks_stay_broken_when_neutralised_twice() -> None:
    """A second pass makes nothing live again."""
    assert [attack for attack in ATTACKS if found(neutralise(neutralise(attack)))] == []


def test_attacks_stay_broken_when_cut_short() -> None:
    """A cut anywhere in a neutralised text leaves no live form."""
    for attack in ATTACKS[::10]:
        safe = neutralise(attack)
        assert [at for at in range(len(safe)) if tags(safe[:at])] == []


def test_shortening_makes_nothing_live() -> None:
    """A long result with attacks in it, neutralised and then trimmed, holds none."""
    lines = [f"{i} ordinary line of a log\n{attack}" for i, attack in enumerate(ATTACKS[:200])]
    text = neutralise("\n".join(lines))
    room = Allowance(400, lambda words: len(words) // 4, "k3v9x2m1qz")
    trimmed = trim(text, "", room)
    assert trimmed
    short = trimmed[1]
    assert len(short) < len(text)
    assert [form for form in found(short) if "k3v9x2m1qz" not in form and not form.startswith("[…")] == []
