from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from barnabas.core.security.authorizer import Authorizer
from barnabas.core.security.learning import Used, least_entries
from barnabas.core.security.model import OPERATIONS_OF, Operation, Resource, ResourceType

RIGHTS = [
    Used(principal, operation, Resource(kind, name))
    for principal in ("User:anna", "User:bob")
    for kind in (ResourceType.TOPIC, ResourceType.GROUP)
    for name in ("a", "ab")
    for operation in OPERATIONS_OF[kind]
]


@given(st.sets(st.sampled_from(RIGHTS)))
def test_the_entries_allow_all_that_was_used_and_none_can_be_spared(used: set[Used]) -> None:
    entries = least_entries(used)
    authorizer = Authorizer(entries)
    for principal, operation, resource in used:
        assert authorizer.allows(principal, "10.0.0.1", operation, resource)
    for number, entry in enumerate(entries):
        without = Authorizer(entries[:number] + entries[number + 1 :])
        resource = Resource(ResourceType(entry.resource_type), entry.resource_name)
        assert Used(entry.principal, Operation(entry.operation), resource) in used
        assert not without.allows(entry.principal, "10.0.0.1", Operation(entry.operation), resource)
