from __future__ import annotations

import pytest

from barnabas.core.security.model import DENIED, OPERATIONS_OF, Operation, Resource, ResourceType, operations_bitfield


@pytest.mark.parametrize(
    ("resource_type", "bits"),
    [(ResourceType.TOPIC, 3576), (ResourceType.CLUSTER, 8096), (ResourceType.GROUP, 3400)],
)
def test_the_operations_of_a_resource_are_one_bit_each(resource_type: ResourceType, bits: int) -> None:
    assert operations_bitfield(OPERATIONS_OF[resource_type]) == bits


def test_every_resource_that_has_operations_has_an_error_for_their_denial() -> None:
    assert DENIED.keys() == OPERATIONS_OF.keys()


def test_resources_are_named_by_kind() -> None:
    assert Resource.cluster() == (ResourceType.CLUSTER, "kafka-cluster")
    assert Resource.topic("a") == Resource(ResourceType.TOPIC, "a")
    assert Resource.group("a").type is ResourceType.GROUP
    assert Resource.transactional_id("a").type is ResourceType.TRANSACTIONAL_ID
    assert Operation.ALTER_CONFIGS == 11
