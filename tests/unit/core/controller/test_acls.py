from __future__ import annotations

from itertools import count

import pytest

from barnabas.core.controller.acls import RECORDS_MAX, create_acls, delete_acls, describe_acls
from barnabas.core.metadata.state import MetadataImage
from barnabas.core.security.model import Operation, PatternType, PermissionType, ResourceType
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.create_acls import AclCreation, CreateAclsRequest
from barnabas.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from barnabas.wire.messages.describe_acls import DescribeAclsRequest
from barnabas.wire.uuids import Uuid

_ids = count(1)


def new_id() -> Uuid:
    return Uuid(next(_ids).to_bytes(16, "big"))


def creation(name: str = "orders", **changes: object) -> AclCreation:
    fields: dict[str, object] = {
        "resource_type": ResourceType.TOPIC,
        "resource_name": name,
        "resource_pattern_type": PatternType.LITERAL,
        "principal": "User:anna",
        "host": "*",
        "operation": Operation.READ,
        "permission_type": PermissionType.ALLOW,
    }
    return AclCreation(**(fields | changes))


def wanted(name: str | None = None, pattern: PatternType = PatternType.ANY) -> DeleteAclsFilter:
    return DeleteAclsFilter(
        resource_type_filter=ResourceType.ANY,
        resource_name_filter=name,
        pattern_type_filter=pattern,
        principal_filter=None,
        host_filter=None,
        operation=Operation.ANY,
        permission_type=PermissionType.ANY,
    )


def create(image: MetadataImage, *creations: AclCreation) -> tuple[int, list[int]]:
    decision = create_acls(image, CreateAclsRequest(creations=list(creations)), new_id)
    image.replay_all(decision.records)
    return len(decision.records), [each.error_code for each in decision.response.results]


def test_an_entry_that_exists_is_created_without_a_record_and_without_an_error() -> None:
    image = MetadataImage()
    assert create(image, creation(), creation()) == (1, [0, 0])
    assert create(image, creation(), creation("others")) == (1, [0, 0])
    assert len(image.acls) == 2


@pytest.mark.parametrize(
    "wrong",
    [
        {"resource_type": ResourceType.ANY},
        {"resource_type": 99},
        {"resource_type": ResourceType.CLUSTER},
        {"resource_name": ""},
        {"resource_pattern_type": PatternType.MATCH},
        {"operation": Operation.ANY},
        {"operation": 77},
        {"permission_type": PermissionType.ANY},
        {"principal": "anna"},
    ],
)
def test_a_wrong_entry_is_refused_and_the_others_are_created(wrong: dict[str, object]) -> None:
    assert create(MetadataImage(), creation(**wrong), creation("good")) == (1, [ErrorCode.INVALID_REQUEST, 0])


def test_a_filter_deletes_what_it_matches_and_names_it() -> None:
    image = MetadataImage()
    prefix = creation("ord", resource_pattern_type=PatternType.PREFIXED)
    create(image, creation(), prefix, creation("*"), creation("others"))
    request = DeleteAclsRequest(filters=[wanted("orders", PatternType.MATCH), wanted("orders", PatternType.LITERAL)])
    decision = delete_acls(image, request)
    named = [[acl.resource_name for acl in each.matching_acls] for each in decision.response.filter_results]
    assert named == [["orders", "ord", "*"], ["orders"]]
    assert len(decision.records) == 3
    image.replay_all(decision.records)
    assert [entry.resource_name for entry in image.acls.values()] == ["others"]


def test_a_deletion_of_too_many_entries_deletes_none() -> None:
    image = MetadataImage()
    for start in (0, RECORDS_MAX):
        create(image, *(creation(f"topic-{number}") for number in range(start, start + RECORDS_MAX)))
    with pytest.raises(KafkaError) as refused:
        delete_acls(image, DeleteAclsRequest(filters=[wanted()]))
    assert refused.value.code is ErrorCode.INVALID_REQUEST


def test_entries_are_described_by_their_pattern() -> None:
    image = MetadataImage()
    create(image, creation(), creation(operation=Operation.WRITE), creation("others"))
    request = DescribeAclsRequest(
        resource_type_filter=ResourceType.TOPIC,
        resource_name_filter="orders",
        principal_filter=None,
        host_filter=None,
        operation=Operation.ANY,
        permission_type=PermissionType.ANY,
    )
    (resource,) = describe_acls(image, request).resources
    assert resource.resource_name == "orders"
    assert [acl.operation for acl in resource.acls] == [Operation.READ, Operation.WRITE]
    request.operation = 99
    with pytest.raises(KafkaError):
        describe_acls(image, request)
