"""Benchmarks: each one command, each beside the least code that could do its job on this machine."""
