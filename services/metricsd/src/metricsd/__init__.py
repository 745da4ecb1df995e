"""Exports who uses which GPU, how much, and whether the limit is in force."""
