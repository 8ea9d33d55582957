"""Interactions of people with items: files in, one shape out."""
