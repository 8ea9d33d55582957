"""Unit and property tests of fedrap_core, and the golden vectors."""
