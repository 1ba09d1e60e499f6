"""Which lines of what is folded will be needed again, and how they are shown. Pure."""
