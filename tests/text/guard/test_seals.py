"""Seals: notes of the engine come out of a text as they were written, and nothing else does."""

import pytest

from foveal.text.guard.seals import plain, sealable, sealed, unsealed

NOTE = "[… 3 lines]"
REFERENCE = "; ref k3.1]"


@pytest.mark.parametrize("note", [NOTE, REFERENCE, f"[12 lines left out{REFERENCE}", "no opening"])
def test_a_note_is_counted_as_it_will_be_read(note: str) -> None:
    """Whichever of its openings a note has, it comes back to the character."""
    assert plain(f"a {sealed(note)} b") == f"a {note} b"


@pytest.mark.parametrize(("note", "broken"), [(NOTE, "[~… 3 lines]"), (REFERENCE, ";~ ref k3.1]")])
def test_a_note_is_told_from_a_forgery(note: str, broken: str) -> None:
    """The engine's own note is live in the finished text; the same words of a stranger, beside it, are not."""
    assert unsealed(f"{note} {sealed(note)}") == f"{broken} {note}"


@pytest.mark.parametrize("note", [NOTE, REFERENCE])
def test_a_stranger_cannot_write_a_seal(note: str) -> None:
    """The characters of seals, each by itself, are replaced in foreign text, so that no note can be made of them."""
    foreign = sealed(note)
    assert len(sealable(foreign)) == len(foreign)
    assert plain(sealable(foreign)) == sealable(foreign)
    assert note not in unsealed(sealable(foreign))


def test_ordinary_text_is_left_alone() -> None:
    """Brackets and semicolons of a stranger are its own."""
    text = "for (;;) refs[0] = 1;"
    assert text == plain(text) == sealable(text) == unsealed(text)
