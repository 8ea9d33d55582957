"""`fedrap-sim reproduce`: the paper's tables and figures again, with the leak and without it."""
