"""Scalar functions, by what they are about."""
