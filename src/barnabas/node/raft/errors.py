"""Why a node does not start: one sentence for whoever starts it."""

from __future__ import annotations


class StartError(Exception):
    """Said as it is to the user; when it is raised, nothing has been written."""
