from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.core.security.authorizer import DEFAULT_ALLOW, DEFAULT_DENY, IMPLIED_BY, SUPER_USER, Authorizer, Verdict
from barnabas.core.security.model import Operation, PatternType, PermissionType, Resource, ResourceType
from barnabas.wire.records.metadata import AccessControlEntryRecord

ORDERS = Resource.topic("orders")
HERE = "127.0.0.1"


def entry(
    principal: str = "User:anna",
    operation: Operation = Operation.READ,
    *,
    name: str = "orders",
    pattern: PatternType = PatternType.LITERAL,
    host: str = "*",
    deny: bool = False,
) -> AccessControlEntryRecord:
    return AccessControlEntryRecord(
        resource_type=ResourceType.TOPIC,
        resource_name=name,
        pattern_type=pattern,
        principal=principal,
        host=host,
        operation=operation,
        permission_type=PermissionType.DENY if deny else PermissionType.ALLOW,
    )


def test_the_entry_that_decides_is_told() -> None:
    allowing, denying = entry(), entry(principal="User:*", host="10.0.0.1", deny=True)
    authorizer = Authorizer([allowing, denying])
    assert authorizer.decide("User:anna", HERE, Operation.READ, ORDERS) == Verdict(True, allowing)
    assert authorizer.decide("User:anna", "10.0.0.1", Operation.READ, ORDERS) == Verdict(False, denying)
    assert authorizer.decide("User:bob", HERE, Operation.READ, ORDERS) == DEFAULT_DENY


def test_who_may_read_may_describe_and_who_may_not_read_may_still_describe() -> None:
    assert Authorizer([entry()]).allows("User:anna", HERE, Operation.DESCRIBE, ORDERS)
    both = Authorizer([entry(deny=True), entry(operation=Operation.DESCRIBE)])
    assert both.allows("User:anna", HERE, Operation.DESCRIBE, ORDERS)
    assert not both.allows("User:anna", HERE, Operation.READ, ORDERS)


def test_a_prefix_and_the_wildcard_stand_for_other_names() -> None:
    authorizer = Authorizer([entry(name="ord", pattern=PatternType.PREFIXED), entry("User:bob", name="*")])
    assert authorizer.allows("User:anna", HERE, Operation.READ, ORDERS)
    assert not authorizer.allows("User:anna", HERE, Operation.READ, Resource.topic("or"))
    assert authorizer.allows("User:bob", HERE, Operation.READ, Resource.topic("anything"))


def test_a_resource_without_entries_is_open_only_if_the_setting_says_so() -> None:
    authorizer = Authorizer([entry()], allow_if_no_acl=True)
    assert authorizer.decide("User:bob", HERE, Operation.READ, Resource.topic("others")) == DEFAULT_ALLOW
    assert authorizer.decide("User:bob", HERE, Operation.READ, ORDERS) == DEFAULT_DENY


def test_a_super_user_is_asked_before_any_entry() -> None:
    authorizer = Authorizer([entry("User:root", deny=True)], super_users=["User:root"])
    assert authorizer.decide("User:root", HERE, Operation.READ, ORDERS) == SUPER_USER


def test_any_topic_is_one_that_no_entry_takes_away_again() -> None:
    prefix = entry(name="ord", pattern=PatternType.PREFIXED, deny=True)
    assert Authorizer([entry()]).allows_any("User:anna", HERE, Operation.READ, ResourceType.TOPIC)
    assert not Authorizer([entry(), prefix]).allows_any("User:anna", HERE, Operation.READ, ResourceType.TOPIC)
    assert not Authorizer([entry()]).allows_any("User:anna", HERE, Operation.DESCRIBE, ResourceType.TOPIC)


NAMES = ["*", "*a", "", "a", "ab", "abc", "abd", "b", "ba", "é", "aé"]
USERS = ["User:anna", "User:bob", "User:*"]
HOSTS = ["10.0.0.1", "10.0.0.2"]
SOME_OPERATIONS = [Operation.ALL, Operation.READ, Operation.WRITE, Operation.DESCRIBE, Operation.ALTER_CONFIGS]
ENTRIES = st.builds(
    entry,
    st.sampled_from(USERS),
    st.sampled_from(SOME_OPERATIONS),
    name=st.sampled_from(NAMES),
    pattern=st.sampled_from([PatternType.LITERAL, PatternType.PREFIXED]),
    host=st.sampled_from(["*", *HOSTS]),
    deny=st.booleans(),
)


def decided_by_reading_all(
    entries: list[AccessControlEntryRecord], principal: str, host: str, operation: Operation, name: str
) -> bool | None:
    """None: no entry applies to the caller."""
    verdicts = set()
    for each in entries:
        if each.pattern_type == PatternType.LITERAL:
            named = each.resource_name == name or (each.resource_name == "*" and not name.startswith("*"))
        else:
            named = name.startswith(each.resource_name)
        denies = each.permission_type == PermissionType.DENY
        operations = (
            {operation, Operation.ALL} if denies else {operation, Operation.ALL, *IMPLIED_BY.get(operation, ())}
        )
        if named and each.principal in (principal, "User:*") and each.host in ("*", host):
            verdicts |= {not denies} if each.operation in operations else set()
    return None if not verdicts else False not in verdicts


@settings(max_examples=400, deadline=None)
@given(st.lists(ENTRIES, max_size=30))
def test_the_index_decides_as_reading_all_entries_does(entries: list[AccessControlEntryRecord]) -> None:
    authorizer = Authorizer(entries)
    for principal in USERS[:2]:
        for host in HOSTS:
            for operation in (Operation.READ, Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS):
                for name in [*NAMES, "abcd", "ac", "z"]:
                    verdict = authorizer.decide(principal, host, operation, Resource.topic(name))
                    expected = decided_by_reading_all(entries, principal, host, operation, name)
                    assert verdict.allowed == bool(expected)
                    assert (verdict.entry is None) == (expected is None)
