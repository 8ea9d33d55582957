"""The field and the science: real devices against a real coordinator, and what to measure."""
