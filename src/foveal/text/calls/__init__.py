"""What a tool call did: which files it read or wrote, which lines of them, which command it ran. Pure."""
