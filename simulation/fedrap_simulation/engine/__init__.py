"""All devices of a round at once: the arithmetic of the core, compiled."""
