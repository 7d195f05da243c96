"""Formats of keys and values: bytes to columns and back."""
