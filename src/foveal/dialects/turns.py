"""Taking turns: two of the formats want the user and the model to alternate, beginning and ending with the user."""

from collections.abc import Sequence

from foveal.dialects.port import Wire

CONTINUE = "Please continue."
"""Stands between two replies in a row, and after the last one if nobody has said anything since."""

BEGIN = "[The conversation begins with the reply below.]"


def join_turns(wires: list[Wire], chunk: Sequence[Wire], content: str, *, begin: Wire, go_on: Wire) -> None:
    """Append the chunk. What the user says in a row becomes one turn; `content` is the key that holds it."""
    for wire in chunk:
        last = wires[-1]["role"] if wires else None
        if wire["role"] != "user" and last != "user":
            wires.append(go_on if last else begin)
        if wire["role"] == last == "user":
            wires[-1] = {"role": "user", content: wires[-1][content] + wire[content]}
        else:
            wires.append(wire)
