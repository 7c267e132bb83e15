"""Rows to text: one file an output format, each with ``render(..., stream)``."""
