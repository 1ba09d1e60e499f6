"""Reading of tool calls: the files that a call read or wrote, the lines of them, and the command that it ran. Pure."""
