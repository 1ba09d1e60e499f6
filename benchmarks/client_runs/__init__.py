"""Real clients from npm, run headless against the scripted provider: directly, and through `foveal wrap` and `foveal serve`."""
