"""The stage `ThinkingWindow`: removes thinking of finished tool loops before other content.

A loop goes from one request of the user to the next. Providers check the thinking of the running loop against their
signatures, so it is never touched; thinking of a finished loop is removed whole or not at all.
"""

from collections.abc import Iterator

import msgspec

from foveal.fit.scene import Scene
from foveal.fit.stages.checks import check_count
from foveal.project.atoms import loop_start, thinking_in
from foveal.values.entry import PartFold
from foveal.values.errors import BadPolicy
from foveal.values.shown import Item


class ThinkingWindow(msgspec.Struct, frozen=True, tag="thinking", tag_field="fold", forbid_unknown_fields=True):
    """Keeps thinking in the newest `keep_loops` loops, the running one counted; or, if `keep` is given, in the newest loops
    until they hold that many parts of it.

    The stage decides which thinking is folded first. When folds of this or another stage move the prefix, `fit` removes the
    rest of the finished loops' thinking before `thinking_from` as well: signatures may be bound to the content before them.
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
        """Return the place from which thinking stays when the prefix moves: by default, the start of the running loop.

        A wider window states that the model's signatures are not bound to the content before them.
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
        """Return the number of newest loops that keep their thinking."""
        if self.keep is None:
            return min(self.keep_loops, len(loops))
        kept, parts = 1, len(loops[-1])
        while kept < len(loops) and parts < self.keep:
            kept += 1
            parts += len(loops[-kept])
        return kept


def _loops(scene: Scene) -> list[list[tuple[Item, int]]]:
    """Return the places of thinking in each loop, oldest first; the last loop is running."""
    loops: list[list[tuple[Item, int]]] = [[]]
    for atom in scene.view.atoms:
        if any(item.role == "user" and not item.is_silent for item in atom.items):
            loops.append([])
        loops[-1].extend(thinking_in(atom))
    return loops
