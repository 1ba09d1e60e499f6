"""Charts of measurements as values: points on two axes. The viewer draws them, and shows their figures as tables."""

import msgspec


class Mark(msgspec.Struct, frozen=True):
    """A point of a chart."""

    x: float
    y: float
    kind: str
    """Its colour: `own`, `best` or `other`."""
    label: str = ""
    is_hollow: bool = False
    is_ringed: bool = False
    x_whisker: tuple[float, float] | None = None
    y_whisker: tuple[float, float] | None = None


class ScatterChart(msgspec.Struct, frozen=True):
    """Points on two axes."""

    title: str
    across: str
    """The meaning of the horizontal axis."""
    up: str
    """The meaning of the vertical axis."""
    marks: tuple[Mark, ...]
    lines: tuple[tuple[int, ...], ...] = ()
    """Numbers of marks that a line connects. It has the colour of the first of them."""
    most_x: float | None = None
    """Values to the right of this are drawn at the edge; None if all are drawn in their places."""
