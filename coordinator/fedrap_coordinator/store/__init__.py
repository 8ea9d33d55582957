"""Where the coordinator keeps its state: one protocol, in memory and in SQL."""
