"""The guard: the engine frames its own words in a prompt, and no other text can forge such a frame.

A prompt is one long text, and a model believes a text that looks like its host. So only the system prompt may hold frames;
every other text is **neutralised**. Neutralising breaks every form that a model could take for a frame of ours, for a chat
template's token or for a line of our stand-ins, visibly and reversibly.
Pure text in, pure text out.
"""

from typing import TYPE_CHECKING

from foveal.values.lazy import later

if TYPE_CHECKING:
    from foveal.text.guard.frame_tags import KINDS, fence_kind, forged_tags, nonce, session_nonce, wrap
    from foveal.text.guard.names import safe_name
    from foveal.text.guard.neutral_text import neutralise, neutralise_joined, restore, tags
    from foveal.text.guard.parts import neutralise_part

_NAMES = {
    "frame_tags": "KINDS fence_kind forged_tags nonce session_nonce wrap",
    "names": "safe_name",
    "neutral_text": "neutralise neutralise_joined restore tags",
    "parts": "neutralise_part",
}

__getattr__ = later(__name__, {name: module for module, names in _NAMES.items() for name in names.split()})

__all__ = [
    "KINDS",
    "fence_kind",
    "forged_tags",
    "neutralise",
    "neutralise_joined",
    "neutralise_part",
    "nonce",
    "restore",
    "safe_name",
    "session_nonce",
    "tags",
    "wrap",
]
