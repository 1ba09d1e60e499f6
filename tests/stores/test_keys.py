"""Keys from a file or from the environment."""

from base64 import b64encode, urlsafe_b64encode
from pathlib import Path
from secrets import token_bytes

import pytest

pytest.importorskip("cryptography", reason="the extra `keys` is not installed")

from foveal.stores.keys import read_keys
from foveal.values.errors import BadInput


@pytest.mark.parametrize("made", [b64encode, urlsafe_b64encode, lambda key: b64encode(key).rstrip(b"=")])
def test_a_key_in_the_place_of_its_file_is_not_repeated(made) -> None:
    """Who sets the variable to the key itself is told so, without the key."""
    key = made(token_bytes(32)).decode()
    with pytest.raises(BadInput, match="a key itself was given") as caught:
        read_keys(key)
    assert key not in str(caught.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    """A name that is no key is shown."""
    with pytest.raises(BadInput, match="nothing-here"):
        read_keys(tmp_path / "nothing-here")


def test_keys_that_everybody_may_replace_are_refused(tmp_path: Path) -> None:
    """Whoever writes the file chooses the key of all sessions from then on; one that is only read by others is taken."""
    file = tmp_path / "keys"
    file.write_bytes(b64encode(token_bytes(32)))
    file.chmod(0o644)
    read_keys(file)
    file.chmod(0o666)
    with pytest.raises(BadInput, match="chmod 600"):
        read_keys(file)


@pytest.mark.parametrize("text", ["ké", "“" + "A" * 43 + "”", "\u200b" + "A" * 43 + "="])
def test_a_key_with_letters_that_no_key_has_is_refused_in_words(tmp_path: Path, text: str) -> None:
    """What a word processor makes of a key is told like any other that is none."""
    (tmp_path / "keys").write_text(text, "utf-8")
    with pytest.raises(BadInput, match="is not 32 bytes in base64"):
        read_keys(tmp_path / "keys")


def test_a_file_of_keys_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    """Some editors write one before everything that they save."""
    (tmp_path / "keys").write_text("A" * 43 + "=", "utf-8-sig")
    (tmp_path / "plain").write_text("A" * 43 + "=", "utf-8")
    wrapped = read_keys(tmp_path / "plain").wrap(b"data key", b"s")
    assert read_keys(tmp_path / "keys").unwrap(wrapped, b"s") == b"data key"


@pytest.mark.parametrize("place", ["", " "])
def test_an_empty_place_of_keys_is_said_to_be_empty(place: str) -> None:
    """A variable that was set to nothing is not taken for the folder that the process is in, nor for no keys at all."""
    with pytest.raises(BadInput, match=r"is empty .*FOVEAL_KEYS"):
        read_keys(place)
