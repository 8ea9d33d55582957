"""Many devices in the field: the SDK's own decisions against the real coordinator."""
