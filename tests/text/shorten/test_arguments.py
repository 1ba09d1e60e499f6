"""A call's arguments, shortened."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foveal.models.counters import encoding
from foveal.testing.strategies import ODD_ARGUMENTS
from foveal.text.shorten.arguments import shorten_arguments

count = encoding("o200k_base").count
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-9, 9)
    | st.text(max_size=20)
    | st.sampled_from(("word " * 400, "汉" * 300)),
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.text(max_size=9), inner, max_size=6),
    max_leaves=30,
)


@settings(deadline=None)
@given(value=st.dictionaries(st.text(max_size=9), values, max_size=8), tokens=st.integers(1, 300))
def test_they_stay_a_json_object_within_their_tokens(value: dict[str, object], tokens: int) -> None:
    """Shortened arguments parse as an object, are shorter than the originals and within their tokens."""
    arguments = msgspec.json.encode(value).decode()
    shown = shorten_arguments(arguments, tokens, count, "abc123")
    if shown is not None:
        assert isinstance(msgspec.json.decode(shown), dict)
        assert count(shown) <= tokens
        assert len(shown) < len(arguments)


@pytest.mark.parametrize("arguments", ODD_ARGUMENTS)
def test_odd_arguments_are_shortened_or_left_alone(arguments: str) -> None:
    """Arguments that are no object are not changed, and raise no error."""
    shown = shorten_arguments(arguments, 40, count, "abc123")
    assert shown is None or isinstance(msgspec.json.decode(shown), dict)


def test_short_strings_survive_next_to_long_ones() -> None:
    """The path of a written file is still there when its content is not."""
    arguments = msgspec.json.encode({"path": "src/app.py", "content": "x = 1\n" * 2_000}).decode()
    shown = shorten_arguments(arguments, 80, count, "abc123")
    assert shown
    assert msgspec.json.decode(shown)["path"] == "src/app.py"
    assert "abc123" in shown
