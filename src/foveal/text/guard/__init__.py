"""The guard: the engine frames its own words in a prompt, and no other text can forge such a frame.

A prompt is one long text, and a model believes a text that looks like its host. So only the system prompt may hold frames;
every other text is **neutralised**, after the last change that is made to it. Neutralising breaks every form that a model
could take for a frame of ours, for a chat template's token or for a line of our stand-ins, visibly and reversibly.
Pure text in, pure text out.
"""

from typing import TYPE_CHECKING

from foveal.values.lazy import later

if TYPE_CHECKING:
    from foveal.text.guard.frame_tags import KINDS, fence_kind, forged_tags, nonce, session_nonce, wrap
    from foveal.text.guard.names import safe_name
    from foveal.text.guard.neutral_text import neutralise, neutralise_joined, neutralise_live, restore, tags
    from foveal.text.guard.parts import neutralise_definition, neutralise_part
    from foveal.text.guard.protection import OURS_ONLY, Guard
    from foveal.text.guard.seals import plain, sealable, sealed, unsealed

_NAMES = {
    "frame_tags": "KINDS fence_kind forged_tags nonce session_nonce wrap",
    "names": "safe_name",
    "neutral_text": "neutralise neutralise_joined neutralise_live restore tags",
    "parts": "neutralise_definition neutralise_part",
    "protection": "OURS_ONLY Guard",
    "seals": "plain sealable sealed unsealed",
}

__getattr__ = later(__name__, {name: module for module, names in _NAMES.items() for name in names.split()})

__all__ = [
    "KINDS",
    "OURS_ONLY",
    "Guard",
    "fence_kind",
    "forged_tags",
    "neutralise",
    "neutralise_definition",
    "neutralise_joined",
    "neutralise_live",
    "neutralise_part",
    "nonce",
    "plain",
    "restore",
    "safe_name",
    "sealable",
    "sealed",
    "session_nonce",
    "tags",
    "unsealed",
    "wrap",
]
