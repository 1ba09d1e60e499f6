"""The summary that stands for a folded range: its sections, how they are composed, when a written one is accepted. Pure."""
