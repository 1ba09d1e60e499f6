"""Charts: round axes, one mark for each point, labels that lie on nothing."""

import re
from xml.etree import ElementTree

import pytest

from foveal.analysis.chart import Axis, Mark, document, scatter, steps

X, Y = Axis.over(0.0, 1.0, 50, 450), Axis.over(0.0, 1.0, 300, 20)


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (0, 16_000, [0, 5_000, 10_000, 15_000, 20_000]),
        (0.0, 1.0, [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]),
        (0.83, 0.97, [0.80, 0.85, 0.90, 0.95, 1.0]),
        (0.5, 0.5, None),
    ],
)
def test_an_axis_goes_from_one_round_number_to_another(low, high, ticks):
    """It holds all values, with at most six steps; equal values make an axis as well."""
    axis = Axis.over(low, high, 0, 100)
    assert axis.low <= low <= high <= axis.high
    assert axis.low < axis.high
    assert ticks is None or axis.ticks() == pytest.approx(ticks)


def test_a_value_outside_is_drawn_at_the_edge():
    """The pixels of an axis are its start, its end and those between them."""
    assert [X.at(value) for value in (-1, 0, 0.5, 1, 7)] == [50, 50, 250, 450, 450]


def test_steps_are_one_for_each_value():
    """The path begins and ends on the floor."""
    assert steps((0, 1), X, Y) == "M50,300V300.0H250.0V20.0H450.0V300Z"


def test_every_mark_is_drawn_with_its_title():
    """Ringed marks have a second circle; texts are escaped, so that the picture is valid XML."""
    marks = [Mark(0.2, 0.5, "own", "a < b", "a", is_ringed=True), Mark(0.8, 0.9, "other", "c", is_hollow=True)]
    drawn = ElementTree.fromstring(document((500, 340), "A & B", scatter(marks, (X, Y), title="T", caption="C")))  # noqa: S314 - our own
    circles = drawn.findall("{http://www.w3.org/2000/svg}circle")
    assert [one.get("class") for one in circles] == ["ring", "own", "other hollow"]
    assert [one[0].text for one in circles if len(one)] == ["a < b", "c"]


def test_labels_of_marks_that_lie_close_do_not_overlap():
    """Twelve marks on two pixels: each label has a place of its own."""
    marks = [Mark(0.5 + n / 4000, 0.5, "other", str(n), f"label {n}") for n in range(12)]
    text = "".join(scatter(marks, (X, Y), title="", caption=""))
    places = re.findall(r'class="name" x="([\d.]+)" y="([\d.]+)"', text)
    assert len(places) == len(set(places)) == 12
