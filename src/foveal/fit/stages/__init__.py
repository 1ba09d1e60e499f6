"""The stages of a policy: each proposes folds of one kind.

`summary_folds` imports all of `summary`, which not every session needs: its functions are loaded by the first summary.
"""

from typing import TYPE_CHECKING

from foveal.values.lazy import later

if TYPE_CHECKING:
    from foveal.fit.stages.summary_folds import fold_into_summary, shown_beside

__getattr__ = later(__name__, {"fold_into_summary": "summary_folds", "shown_beside": "summary_folds"})

__all__ = ["fold_into_summary", "shown_beside"]
