"""Content-aware shortening: a text at a lower level of detail, by what it is (JSON, log, diff, source, table …).

The levels and their patterns are loaded by the first text that is shortened.
"""

from typing import TYPE_CHECKING

from foveal.values.lazy import later

if TYPE_CHECKING:
    from foveal.text.shorten.choose import kind_of, trim
    from foveal.text.shorten.message import shorten_message

__getattr__ = later(__name__, {"kind_of": "choose", "trim": "choose", "shorten_message": "message"})

__all__ = ["kind_of", "shorten_message", "trim"]
