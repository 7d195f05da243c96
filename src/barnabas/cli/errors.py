"""What a command tells a user who asked for something that cannot be."""

from __future__ import annotations


class UsageError(Exception):
    """The user's mistake: one sentence, exit code 1."""
