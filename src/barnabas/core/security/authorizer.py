"""Who may do what: the semantics of Kafka's StandardAuthorizer, as a pure function of access control entries.

An entry applies to an action if its resource pattern matches the resource (a literal name, the literal `*`, or a prefix
of the name), its principal is the caller's or `User:*`, its host is the caller's address or `*`, and its operation is
the one asked for or ALL. An entry that allows also covers what its operation implies: READ, WRITE, DELETE and ALTER
imply DESCRIBE, ALTER_CONFIGS implies DESCRIBE_CONFIGS. An entry that denies implies nothing.

The order of decision: a super user is allowed; any entry that denies decides; any entry that allows decides; if no
entry at all names the resource, `allow_if_no_acl` decides; otherwise the action is denied.

Entries are kept by resource type and principal. When an operation is asked for the first time they become `_Rights`:
what is denied and allowed by name, and by prefix. A prefix takes over what the prefixes that it begins with say, so the
longest one that a name begins with says all; it is found by bisection, as any prefix of a name lies before it in order
and everything between the two begins with it. A decision looks at the caller's rights and at those of everybody.
Decisions are remembered until the entries change, in a table with a bound.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import NamedTuple

from barnabas.core.security.model import Operation, PatternType, PermissionType, Resource, ResourceType
from barnabas.wire.records.metadata import AccessControlEntryRecord

WILDCARD = "*"
ANY_USER = "User:*"
REMEMBERED_MAX = 50_000

IMPLIED_BY: dict[Operation, frozenset[Operation]] = {
    Operation.DESCRIBE: frozenset(
        {Operation.DESCRIBE, Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER, Operation.ALL}
    ),
    Operation.DESCRIBE_CONFIGS: frozenset({Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS, Operation.ALL}),
}


class Verdict(NamedTuple):
    """A decision and what it rests on: an entry, or else the rule that has a name."""

    allowed: bool
    entry: AccessControlEntryRecord | None = None
    rule: str = "MatchingAcl"


SUPER_USER = Verdict(True, rule="SuperUser")
DEFAULT_ALLOW = Verdict(True, rule="DefaultAllow")
DEFAULT_DENY = Verdict(False, rule="DefaultDeny")


class _Cell:
    """What the entries of one pattern say about one operation: for all hosts, and for some."""

    __slots__ = ("of_hosts", "verdict")

    def __init__(self) -> None:
        self.verdict: Verdict | None = None
        self.of_hosts: dict[str, Verdict] = {}

    def add(self, host: str, verdict: Verdict) -> None:
        if host == WILDCARD:
            self.verdict = _stronger(self.verdict, verdict)
        else:
            self.of_hosts[host] = _stronger(self.of_hosts.get(host), verdict)

    def inherit(self, other: _Cell) -> None:
        if other.verdict is not None:
            self.add(WILDCARD, other.verdict)
        for host, verdict in other.of_hosts.items():
            self.add(host, verdict)

    def find(self, host: str) -> Verdict | None:
        verdict = self.verdict
        if self.of_hosts and (own := self.of_hosts.get(host)) is not None:
            return _stronger(verdict, own)
        return verdict


def _stronger(one: Verdict | None, other: Verdict) -> Verdict:
    """An entry that denies decides; of two that say the same, the first."""
    return other if one is None or (one.allowed and not other.allowed) else one


class _Rights:
    """What one principal's entries say about one operation on resources of one type."""

    __slots__ = ("_above", "_cells", "_literal", "_prefixes", "_wildcard")

    def __init__(self, entries: Iterable[AccessControlEntryRecord], operation: Operation) -> None:
        self._literal: dict[str, _Cell] = {}
        prefixed: dict[str, _Cell] = {}
        for entry in entries:
            if _covers(entry, operation):
                cells = self._literal if entry.pattern_type == PatternType.LITERAL else prefixed
                verdict = Verdict(entry.permission_type == PermissionType.ALLOW, entry)
                cells.setdefault(entry.resource_name, _Cell()).add(entry.host, verdict)
        self._wildcard = self._literal.get(WILDCARD)
        self._prefixes = sorted(prefixed)
        self._cells = [prefixed[prefix] for prefix in self._prefixes]
        self._above: list[int] = []  # of each prefix: the longest other one that it begins with, -1 if there is none
        path: list[int] = []
        for number, prefix in enumerate(self._prefixes):
            while path and not prefix.startswith(self._prefixes[path[-1]]):
                path.pop()
            self._above.append(path[-1] if path else -1)
            if path:
                self._cells[number].inherit(self._cells[path[-1]])
            path.append(number)

    def find(self, name: str, host: str, found: Verdict | None) -> Verdict | None:
        """The stronger of what these rights say and `found`."""
        cell = self._literal.get(name)
        if cell is not None and (verdict := cell.find(host)) is not None:
            found = _stronger(found, verdict)
        # As in Kafka, the wildcard does not stand for names that begin with `*` themselves.
        if self._wildcard is not None and name[:1] != WILDCARD and (verdict := self._wildcard.find(host)) is not None:
            found = _stronger(found, verdict)
        prefixes = self._prefixes
        if prefixes:
            number = bisect_right(prefixes, name) - 1
            while number >= 0 and not name.startswith(prefixes[number]):
                number = self._above[number]
            if number >= 0 and (verdict := self._cells[number].find(host)) is not None:
                found = _stronger(found, verdict)
        return found


class _Owned:
    """The entries of one principal on resources of one type, and its rights as far as they were asked for."""

    __slots__ = ("entries", "rights")

    def __init__(self) -> None:
        self.entries: list[AccessControlEntryRecord] = []
        self.rights: dict[Operation, _Rights] = {}

    def of(self, operation: Operation) -> _Rights:
        rights = self.rights.get(operation)
        if rights is None:
            rights = self.rights[operation] = _Rights(self.entries, operation)
        return rights


class _Named:
    """Which names of one type any entry is about."""

    def __init__(self, entries: Iterable[AccessControlEntryRecord]) -> None:
        self._literal: set[str] = set()
        self._prefixed: set[str] = set()
        for entry in entries:
            (self._literal if entry.pattern_type == PatternType.LITERAL else self._prefixed).add(entry.resource_name)
        self._lengths = sorted({len(prefix) for prefix in self._prefixed})

    def __contains__(self, name: str) -> bool:
        if name in self._literal or (WILDCARD in self._literal and not name.startswith(WILDCARD)):
            return True
        return any(name[:length] in self._prefixed for length in self._lengths if length <= len(name))


class Authorizer:
    def __init__(
        self,
        entries: Iterable[AccessControlEntryRecord] = (),
        *,
        super_users: Iterable[str] = (),
        allow_if_no_acl: bool = False,
    ) -> None:
        self.super_users = frozenset(super_users)
        self.allow_if_no_acl = allow_if_no_acl
        self._owned: dict[tuple[int, str], _Owned] = {}
        self._named: dict[int, _Named] = {}
        self._remembered: dict[tuple[str, str, int, Resource], Verdict] = {}
        for entry in entries:
            if entry.pattern_type in (PatternType.LITERAL, PatternType.PREFIXED):
                key = entry.resource_type, entry.principal
                owned = self._owned.get(key)
                if owned is None:
                    owned = self._owned[key] = _Owned()
                owned.entries.append(entry)

    def allows(self, principal: str, host: str, operation: Operation, resource: Resource) -> bool:
        return self.decide(principal, host, operation, resource).allowed

    def decide(self, principal: str, host: str, operation: Operation, resource: Resource) -> Verdict:
        if principal in self.super_users:
            return SUPER_USER
        key = (principal, host, operation, resource)
        verdict = self._remembered.get(key)
        if verdict is None:
            verdict = self._decide(principal, host, operation, resource)
            if len(self._remembered) >= REMEMBERED_MAX:
                self._remembered.clear()
            self._remembered[key] = verdict
        return verdict

    def _decide(self, principal: str, host: str, operation: Operation, resource: Resource) -> Verdict:
        kind, name = resource
        found: Verdict | None = None
        for who in (principal, ANY_USER):
            owned = self._owned.get((kind, who))
            if owned is not None:
                found = owned.of(operation).find(name, host, found)
        if found is not None:
            return found
        return DEFAULT_ALLOW if self.allow_if_no_acl and not self._is_named(resource) else DEFAULT_DENY

    def _is_named(self, resource: Resource) -> bool:
        named = self._named.get(resource.type)
        if named is None:
            entries = (
                entry for key, owned in self._owned.items() if key[0] == resource.type for entry in owned.entries
            )
            named = self._named[resource.type] = _Named(entries)
        return resource.name in named

    def allows_any(self, principal: str, host: str, operation: Operation, resource_type: ResourceType) -> bool:
        """Whether there is any name of this type on which the caller may do this. Implied operations do not count."""
        if self.allows(principal, host, operation, Resource(resource_type, "hardcode")):
            return True
        applying = [
            entry
            for who in dict.fromkeys((principal, ANY_USER))
            if (owned := self._owned.get((resource_type, who))) is not None
            for entry in owned.entries
            if entry.host in (WILDCARD, host) and entry.operation in (operation, Operation.ALL)
        ]
        denied = {_pattern_of(entry) for entry in applying if entry.permission_type == PermissionType.DENY}
        if (PatternType.LITERAL, WILDCARD) in denied:
            return False
        return any(not _covered(entry, denied) for entry in applying if entry.permission_type == PermissionType.ALLOW)


def _covers(entry: AccessControlEntryRecord, operation: Operation) -> bool:
    if entry.operation in (operation, Operation.ALL):
        return True
    return entry.permission_type == PermissionType.ALLOW and entry.operation in IMPLIED_BY.get(operation, ())


def _pattern_of(entry: AccessControlEntryRecord) -> tuple[int, str]:
    return entry.pattern_type, entry.resource_name


def _covered(entry: AccessControlEntryRecord, denied: set[tuple[int, str]]) -> bool:
    """Whether an entry that denies takes away all that this one allows. The literal `*` was looked at before."""
    name = entry.resource_name
    if entry.pattern_type == PatternType.LITERAL:
        if name == WILDCARD:
            return False
        if (PatternType.LITERAL, name) in denied:
            return True
    return any((PatternType.PREFIXED, name[:length]) in denied for length in range(1, len(name) + 1))
