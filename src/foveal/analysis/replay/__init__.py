"""Replays of recorded sessions: the prompts that Foveal would have sent, their bills, and reports about them."""
