"""Thinking of finished tool loops goes before anything else has to.

A loop goes from one request of the user to the next. Providers check the thinking of the running loop against what they
signed, so it is never touched, and that of a finished loop goes whole or not at all.
"""

from collections.abc import Iterator

import msgspec

from foveal.fit.scene import Scene
from foveal.fit.stages.checks import check_count
from foveal.project.atoms import loop_start
from foveal.values.entry import PartFold, RedactedThinking, Thinking
from foveal.values.errors import BadPolicy
from foveal.values.shown import Item


class ThinkingWindow(msgspec.Struct, frozen=True, tag="thinking", tag_field="fold", forbid_unknown_fields=True):
    """Thinking stays in the newest `keep_loops` loops, the running one counted; or, if `keep` is given, in the newest loops
    until they hold that many parts of it.

    It says what goes first. When folds of this or another stage move the prefix, `fit` removes the rest of the finished
    loops' thinking as well, from before `thinking_from`: signatures may be bound to what stood before them.
    """

    keep_loops: int = 1
    keep: int | None = None
    last_resort: bool = False

    def __post_init__(self) -> None:
        check_count(self, "keep_loops", least=1)  # the running loop is never touched
        check_count(self, "keep", least=0)
        if self.keep is not None and self.keep_loops != 1:
            raise BadPolicy("thinking: keep counts parts and keep_loops counts loops; set one of them")

    def thinking_from(self, scene: Scene) -> int:
        """Where thinking stays when the prefix moves: with no wider window than the default, from the running loop on.

        A wider one is the word of somebody who knows that the model's signatures are not bound to what stands before them.
        """
        running = loop_start(scene.view.atoms)
        if self.keep_loops == 1 and not self.keep:
            return running
        loops = _loops(scene)
        kept = [item for loop in loops[len(loops) - self._kept(loops) :] for item, _ in loop]
        return min((place for item in kept if (place := scene.view.place(item.id)) is not None), default=running)

    def __call__(self, scene: Scene) -> Iterator[PartFold]:
        loops = _loops(scene)
        because = "thinking of a loop that is finished"
        for loop in loops[: len(loops) - self._kept(loops)]:
            for item, index in loop:
                yield scene.fold((item.id, index), "", level="cleared", policy="thinking", because=because)

    def _kept(self, loops: list[list[tuple[Item, int]]]) -> int:
        """How many of the newest loops stay as they are."""
        if self.keep is None:
            return min(self.keep_loops, len(loops))
        kept, parts = 1, len(loops[-1])
        while kept < len(loops) and parts < self.keep:
            kept += 1
            parts += len(loops[-kept])
        return kept


def _loops(scene: Scene) -> list[list[tuple[Item, int]]]:
    """Where thinking is shown in each loop, oldest first; the last one is running."""
    loops: list[list[tuple[Item, int]]] = [[]]
    for atom in scene.view.atoms:
        if any(item.role == "user" and not item.is_silent for item in atom.items):
            loops.append([])
        for item in atom.items:
            for i, shown in enumerate(item.shown):
                if isinstance(shown.part, Thinking | RedactedThinking) and not item.pinned:
                    loops[-1].append((item, i))
    return loops
