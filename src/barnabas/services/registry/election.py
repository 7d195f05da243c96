"""Who is the primary: the members of a group agree on it, by the rule of Confluent's registry.

Every instance joins a group (`schema-registry`) under the protocol `v0` of type `sr` and says who it is. The member
that leads the group names the primary, the eligible one with the smallest URL, and tells everybody. Confluent's
registries and ours can be members of one group.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

PROTOCOL_TYPE = "sr"
PROTOCOL = "v0"
FORMAT_VERSION = 1
NO_ERROR, DUPLICATE_URLS = 0, 1


class Identity(NamedTuple):
    host: str
    port: int
    eligible: bool = True
    scheme: str = "http"

    @property
    def url(self) -> str:
        return f"{self.scheme}://{self.host}:{self.port}"

    def encode(self) -> bytes:
        return msgspec.json.encode(self._tree())

    def _tree(self) -> dict[str, object]:
        return {
            "version": FORMAT_VERSION,
            "host": self.host,
            "port": self.port,
            "master_eligibility": self.eligible,
            "scheme": self.scheme,
            "leader": False,
        }


class Assignment(NamedTuple):
    error: int
    member_id: str | None
    primary: Identity | None

    def encode(self) -> bytes:
        tree: dict[str, object] = {"version": FORMAT_VERSION, "error": self.error}
        if self.primary is not None:
            tree |= {"master": self.member_id, "master_identity": self.primary._tree()}
        return msgspec.json.encode(tree)


def decode_identity(data: bytes) -> Identity:
    """Raises ValueError."""
    return _identity(_object(data))


def decode_assignment(data: bytes) -> Assignment:
    """Raises ValueError."""
    tree = _object(data)
    primary = tree.get("master_identity")
    return Assignment(
        error=int(tree.get("error", NO_ERROR)),
        member_id=tree.get("master"),
        primary=_identity(primary) if isinstance(primary, dict) else None,
    )


def elect(members: Mapping[str, Identity]) -> Assignment:
    """By member id. Two members with one URL are a mistake of configuration, which everybody is told."""
    eligible = sorted((each.url, member_id) for member_id, each in members.items() if each.eligible)
    error = NO_ERROR if len({each.url for each in members.values()}) == len(members) else DUPLICATE_URLS
    if not eligible:
        return Assignment(error, None, None)
    member_id = eligible[0][1]
    return Assignment(error, member_id, members[member_id])


def _object(data: bytes) -> dict[str, Any]:
    try:
        tree = msgspec.json.decode(data)
    except msgspec.DecodeError as error:
        raise ValueError(str(error)) from None
    if not isinstance(tree, dict):
        raise ValueError("it is not an object")
    return tree


def _identity(tree: Mapping[str, object]) -> Identity:
    host, port = tree.get("host"), tree.get("port")
    if not isinstance(host, str) or not isinstance(port, int):
        raise ValueError("it names no host and port")
    return Identity(host, port, tree.get("master_eligibility") is True, str(tree.get("scheme") or "http"))
