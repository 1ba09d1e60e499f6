"""Why, cost and prefix moves of stored sessions."""
