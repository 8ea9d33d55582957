"""The coordinator: rounds, the participation rule, releases of C, the item catalogue."""
