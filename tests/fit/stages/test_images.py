"""The newest images stay, by number and bytes; older ones are a line that says what they were."""

from typing import Any

import pytest

from foveal.fit.scene import Scene
from foveal.session.policy import Images
from foveal.session.session import Session
from foveal.testing.builders import open_session
from foveal.testing.strategies import tiny_png
from foveal.values.entry import Image, Message, PartFold, Pin, Text, ToolCall, ToolResult, assistant, user
from foveal.values.errors import BadPolicy
from foveal.values.shown import NOTHING


def picture(size_bytes: int = 900) -> Image:
    png = tiny_png()
    return Image("image/png", png[:-12] + b"x" * (size_bytes - len(png)) + png[-12:], width=640, height=480)


def session(pictures: int) -> Session:
    """A screenshot after each of as many calls, all of them seen, and a request at the end."""
    made = open_session()
    made.append(user("look around"))
    for i in range(pictures):
        made.append(assistant("", ToolCall(f"c{i}", "screenshot", "{}")))
        made.append(Message("tool", (ToolResult(f"c{i}", (Text(f"page {i}"), picture())),)))
    made.extend([assistant("Seen."), user("and now?")])
    return made


def proposed(made: Session, stage: Images) -> list[PartFold]:
    return list(stage(Scene(made.view, 10_000, NOTHING)))


def test_the_newest_images_stay() -> None:
    """Of five screenshots with two kept, the oldest three go, oldest first; the text beside them stays."""
    made = session(5)
    folds = proposed(made, Images(keep=2))
    assert [fold.text.splitlines()[0] for fold in folds] == ["page 0", "page 1", "page 2"]
    assert "[image image/png 640×480, 900 bytes: " in folds[0].text
    assert f"ref {folds[0].entry[:10]}" in folds[0].text


def test_images_are_kept_up_to_a_number_of_bytes() -> None:
    """From the first that does not fit on, older ones go."""
    assert len(proposed(session(5), Images(keep=9, max_bytes=2_000))) == 3
    assert proposed(session(5), Images(keep=9, max_bytes=4_500)) == []


def test_images_of_the_latest_request_stay_and_count() -> None:
    """What the user just showed is never folded, and takes the place of older images."""
    made = session(1)
    made.append(user("this?", picture(), picture()))
    assert len(proposed(made, Images(keep=1))) == 1
    assert len(proposed(made, Images(keep=2))) == 1
    assert proposed(made, Images(keep=3)) == []


def test_an_image_of_an_older_request_becomes_one_line() -> None:
    """Between the first and the latest request, images are folded like any other."""
    made = open_session()
    for request in (user("first"), user("this?", picture()), user("latest")):
        made.append(request)
    (fold,) = proposed(made, Images(keep=0))
    assert (fold.part, fold.level) == (1, "reference")


def test_pinned_images_stay() -> None:
    """A pin is stronger than a number."""
    made = session(2)
    made.append(Pin(made.view.atoms[1].items[1].id))
    assert len(proposed(made, Images(keep=0))) == 1


@pytest.mark.parametrize("wrong", [{"keep": -1}, {"max_bytes": -1}])
def test_a_negative_number_is_refused(wrong: dict[str, Any]) -> None:
    """Nothing means itself and no number means everything."""
    with pytest.raises(BadPolicy, match="at least 0"):
        Images(**wrong)
