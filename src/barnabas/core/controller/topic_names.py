"""What a topic may be called, and which names are special."""

from __future__ import annotations

import re
from collections.abc import Iterable

NAME_LENGTH_MAX = 249
CLUSTER_METADATA_TOPIC = "__cluster_metadata"
CONSUMER_OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTION_STATE_TOPIC = "__transaction_state"
SHARE_GROUP_STATE_TOPIC = "__share_group_state"
INTERNAL_TOPICS = frozenset({CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC, SHARE_GROUP_STATE_TOPIC})

_legal = re.compile(r"[a-zA-Z0-9._-]+").fullmatch


def name_error(name: str) -> str | None:
    """Why this cannot be a topic's name, or None if it can."""
    if not name:
        return "Topic name is invalid: the empty string is not allowed"
    if name in (".", ".."):
        return f"Topic name is invalid: '{name}' is not allowed"
    if len(name) > NAME_LENGTH_MAX:
        return f"Topic name is invalid: the length of '{name}' is longer than the max allowed length {NAME_LENGTH_MAX}"
    if not _legal(name):
        return (
            f"Topic name is invalid: '{name}' contains one or more characters other than ASCII alphanumerics, "
            "'.', '_' and '-'"
        )
    return None


def unified(name: str) -> str:
    """The name as metrics show it: '.' and '_' are the same there, so no two topics may differ only by them."""
    return name.replace(".", "_")


def can_collide(name: str) -> bool:
    return "." in name or "_" in name


def named_twice(names: Iterable[str]) -> dict[str, None]:
    """The names that come more than once, in order: a request may name a topic only once."""
    seen: set[str] = set()
    twice: dict[str, None] = {}
    for name in names:
        if name in seen:
            twice[name] = None
        seen.add(name)
    return twice
