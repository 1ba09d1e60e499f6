"""Pure work on text: shortening, the guard against forged tags, reading of tool calls."""
