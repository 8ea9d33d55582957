"""All tests; one folder per package, and contracts and end_to_end across them."""
