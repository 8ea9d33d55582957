"""Recommenders by name, ours and those that one would pick instead, behind one seam."""
