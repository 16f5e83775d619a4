"""Strategies to read, run and copy."""
