"""A schema that is none; the text says why."""

from __future__ import annotations


class InvalidSchema(ValueError):
    pass
