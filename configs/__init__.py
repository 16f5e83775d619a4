"""Topologies that are runnable as they are."""
