"""The summary of a folded range: its state, its composition as text, and the acceptance of prose that a model wrote. Pure."""

from typing import TYPE_CHECKING

from foveal.values.lazy import later

if TYPE_CHECKING:
    from foveal.summary.state import steps_at

__getattr__ = later(__name__, {"steps_at": "state"})

__all__ = ["steps_at"]
