"""The stages of a policy: each proposes folds of one kind.

`summary_folds` imports all of `summary`, which not every session needs: its functions are loaded by the first summary.
"""

from typing import TYPE_CHECKING

from foveal.fit.stages.clear import Clear
from foveal.fit.stages.compact import Compact
from foveal.fit.stages.expired import Expired
from foveal.fit.stages.history import History
from foveal.fit.stages.images import Images
from foveal.fit.stages.outline import Outline
from foveal.fit.stages.shorten import Shorten
from foveal.fit.stages.summarise import Summarise
from foveal.fit.stages.superseded import Superseded
from foveal.fit.stages.thinking import ThinkingWindow
from foveal.values.lazy import later

if TYPE_CHECKING:
    from foveal.fit.stages.summary_folds import fold_into_summary, shown_beside

__getattr__ = later(__name__, {"fold_into_summary": "summary_folds", "shown_beside": "summary_folds"})

__all__ = [
    "Clear",
    "Compact",
    "Expired",
    "History",
    "Images",
    "Outline",
    "Shorten",
    "Summarise",
    "Superseded",
    "ThinkingWindow",
    "fold_into_summary",
    "shown_beside",
]
