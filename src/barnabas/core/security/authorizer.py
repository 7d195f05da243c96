"""Who may do what: the semantics of Kafka's StandardAuthorizer, as a pure function of access control entries.

An entry applies to an action if its resource pattern matches the resource (a literal name, the literal `*`, or a prefix
of the name), its principal is the caller's or `User:*`, its host is the caller's address or `*`, and its operation is
the one asked for or ALL. An entry that allows also covers what its operation implies: READ, WRITE, DELETE and ALTER
imply DESCRIBE, ALTER_CONFIGS implies DESCRIBE_CONFIGS. An entry that denies implies nothing.

The order of decision: a super user is allowed; any entry that denies decides; any entry that allows decides; if no
entry at all names the resource, `allow_if_no_acl` decides; otherwise the action is denied.

Entries are indexed by resource type, pattern and principal, so a decision looks at the caller's own entries on that
resource only. Decisions are remembered until the entries change, in a table with a bound.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
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


@dataclass(slots=True)
class _Pattern:
    """All entries of one resource pattern, by principal."""

    by_principal: dict[str, list[AccessControlEntryRecord]] = field(default_factory=dict)

    def add(self, entry: AccessControlEntryRecord) -> None:
        self.by_principal.setdefault(entry.principal, []).append(entry)

    def of(self, principal: str) -> Iterator[AccessControlEntryRecord]:
        yield from self.by_principal.get(principal, ())
        if principal != ANY_USER:
            yield from self.by_principal.get(ANY_USER, ())


class _Patterns:
    """The resource patterns of one resource type."""

    def __init__(self) -> None:
        self.literal: dict[str, _Pattern] = {}
        self.prefixed: dict[str, _Pattern] = {}
        self._prefix_lengths: tuple[int, ...] = ()

    def add(self, entry: AccessControlEntryRecord) -> None:
        if entry.pattern_type == PatternType.LITERAL:
            self.literal.setdefault(entry.resource_name, _Pattern()).add(entry)
        elif entry.pattern_type == PatternType.PREFIXED:
            self.prefixed.setdefault(entry.resource_name, _Pattern()).add(entry)

    def complete(self) -> None:
        self._prefix_lengths = tuple(sorted({len(prefix) for prefix in self.prefixed}))

    def matching(self, name: str) -> Iterator[_Pattern]:
        if (found := self.literal.get(name)) is not None:
            yield found
        # As in Kafka, the wildcard does not stand for names that begin with `*` themselves.
        if not name.startswith(WILDCARD) and (found := self.literal.get(WILDCARD)) is not None:
            yield found
        for length in self._prefix_lengths:
            if length > len(name):
                break
            if (found := self.prefixed.get(name[:length])) is not None:
                yield found

    def entries_of(self, principal: str) -> Iterator[AccessControlEntryRecord]:
        for patterns in (self.literal, self.prefixed):
            for pattern in patterns.values():
                yield from pattern.of(principal)


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
        self._by_type: dict[int, _Patterns] = {}
        self._remembered: dict[tuple[str, str, int, Resource], Verdict] = {}
        for entry in entries:
            self._by_type.setdefault(entry.resource_type, _Patterns()).add(entry)
        for patterns in self._by_type.values():
            patterns.complete()

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
        patterns = self._by_type.get(resource.type)
        allowing: AccessControlEntryRecord | None = None
        named = False
        for pattern in patterns.matching(resource.name) if patterns is not None else ():
            named = True
            for entry in pattern.of(principal):
                if not _applies(entry, host, operation):
                    continue
                if entry.permission_type == PermissionType.DENY:
                    return Verdict(False, entry)
                allowing = allowing or entry
        if allowing is not None:
            return Verdict(True, allowing)
        return DEFAULT_ALLOW if self.allow_if_no_acl and not named else DEFAULT_DENY

    def allows_any(self, principal: str, host: str, operation: Operation, resource_type: ResourceType) -> bool:
        """Whether there is any name of this type on which the caller may do this. Implied operations do not count."""
        if self.allows(principal, host, operation, Resource(resource_type, "hardcode")):
            return True
        patterns = self._by_type.get(resource_type)
        entries = [] if patterns is None else list(patterns.entries_of(principal))
        applying = [
            entry
            for entry in entries
            if entry.host in (WILDCARD, host) and entry.operation in (operation, Operation.ALL)
        ]
        denied = {_pattern_of(entry) for entry in applying if entry.permission_type == PermissionType.DENY}
        if (PatternType.LITERAL, WILDCARD) in denied:
            return False
        return any(not _covered(entry, denied) for entry in applying if entry.permission_type == PermissionType.ALLOW)


def _applies(entry: AccessControlEntryRecord, host: str, operation: Operation) -> bool:
    if entry.host != WILDCARD and entry.host != host:
        return False
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
