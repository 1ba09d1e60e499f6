"""Which lines of what is folded will be needed again, and how they are shown. Pure.

`update` takes what is newly folded into a `Digest`: the lines that may be needed again, and how often each name in them has been
seen and used. `choose` shows the best of them under a number of tokens. A line is worth what it names: each name, and the line
itself, has a chance of being needed again (`score`), and counts once however often it is shown.
"""

from foveal.digest.choosing import choose
from foveal.digest.scoring import Scoring
from foveal.digest.state import Digest
from foveal.digest.updating import update

__all__ = ["Digest", "Scoring", "choose", "update"]
