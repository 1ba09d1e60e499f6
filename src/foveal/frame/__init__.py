"""The frame: how the engine speaks inside a prompt, and how nobody else does.

A prompt is one long text, and a model believes what looks like its host. So every text is shown according to its `Trust`:
what the host wrote may hold frames, everything else is **neutralised**, which breaks whatever could be taken for a frame of
ours, for a chat template's token or for a line of our stand-ins, visibly and reversibly. Pure text in, pure text out.
"""

from foveal.frame.names import safe_name
from foveal.frame.neutral import neutralise, neutralise_joined, restore, tags
from foveal.frame.parts import neutralise_part
from foveal.frame.trust import Trust, is_trusted, lowest
from foveal.frame.wrap import KINDS, fence_kind, nonce, wrap

__all__ = [
    "KINDS",
    "Trust",
    "fence_kind",
    "is_trusted",
    "lowest",
    "neutralise",
    "neutralise_joined",
    "neutralise_part",
    "nonce",
    "restore",
    "safe_name",
    "tags",
    "wrap",
]
