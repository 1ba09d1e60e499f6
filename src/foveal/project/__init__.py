"""From entries to the view."""
