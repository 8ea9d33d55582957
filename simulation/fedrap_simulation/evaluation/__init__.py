"""Questions asked and answers written down: rows, means, bootstrap, cache, screen."""
