"""Expressions to Python: values and functions with Java's semantics."""
