"""Access control entries: created, deleted and described.

An entry that exists already is created without a record and without an error. A deletion is whole or nothing: a request
that would remove more than `RECORDS_MAX` entries removes none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from barnabas.core.controller.decision import ControllerDecision
from barnabas.core.metadata.state import MetadataImage
from barnabas.core.security.filters import matches, require_known
from barnabas.core.security.model import CLUSTER_NAME, Operation, PatternType, PermissionType, ResourceType
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.create_acls import AclCreation, AclCreationResult, CreateAclsRequest, CreateAclsResponse
from barnabas.wire.messages.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from barnabas.wire.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)
from barnabas.wire.records.metadata import AccessControlEntryRecord, RemoveAccessControlEntryRecord
from barnabas.wire.uuids import Uuid

RECORDS_MAX = 10_000

Identity: TypeAlias = tuple[int, str, int, str, str, int, int]


def create_acls(
    image: MetadataImage, request: CreateAclsRequest, new_id: Callable[[], Uuid]
) -> ControllerDecision[CreateAclsResponse]:
    existing = {_identity(entry) for entry in image.acls.values()}
    records: list[AccessControlEntryRecord] = []
    results: list[AclCreationResult] = []
    for creation in request.creations:
        try:
            _check(creation)
        except KafkaError as error:
            results.append(AclCreationResult(error_code=error.code, error_message=error.message))
            continue
        record = _record(creation, new_id())
        if (identity := _identity(record)) not in existing:
            existing.add(identity)
            records.append(record)
        results.append(AclCreationResult(error_message=None))
    if len(records) > RECORDS_MAX:
        raise KafkaError(ErrorCode.POLICY_VIOLATION, f"At most {RECORDS_MAX} entries can be created by one request.")
    return ControllerDecision(records, CreateAclsResponse(results=results))


def _check(creation: AclCreation) -> None:
    if creation.resource_type not in ResourceType._value2member_map_ or creation.resource_type <= ResourceType.ANY:
        raise _invalid(f"The resource type {creation.resource_type} cannot have entries.")
    if creation.resource_type == ResourceType.CLUSTER and creation.resource_name != CLUSTER_NAME:
        raise _invalid(f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}")
    if not creation.resource_name:
        raise _invalid("Invalid empty resource name")
    if creation.resource_pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
        raise _invalid(f"The pattern type {creation.resource_pattern_type} is neither LITERAL nor PREFIXED.")
    if creation.operation not in Operation._value2member_map_ or creation.operation <= Operation.ANY:
        raise _invalid(f"The operation {creation.operation} cannot be allowed or denied.")
    if creation.permission_type not in (PermissionType.DENY, PermissionType.ALLOW):
        raise _invalid(f"The permission type {creation.permission_type} is neither DENY nor ALLOW.")
    if ":" not in creation.principal:
        raise _invalid(f"The principal '{creation.principal}' has no colon between its type and its name.")


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)


def _record(creation: AclCreation, entry_id: Uuid) -> AccessControlEntryRecord:
    return AccessControlEntryRecord(
        id=entry_id,
        resource_type=creation.resource_type,
        resource_name=creation.resource_name,
        pattern_type=creation.resource_pattern_type,
        principal=creation.principal,
        host=creation.host,
        operation=creation.operation,
        permission_type=creation.permission_type,
    )


def _identity(entry: AccessControlEntryRecord) -> Identity:
    return (
        entry.resource_type,
        entry.resource_name,
        entry.pattern_type,
        entry.principal,
        entry.host,
        entry.operation,
        entry.permission_type,
    )


def delete_acls(image: MetadataImage, request: DeleteAclsRequest) -> ControllerDecision[DeleteAclsResponse]:
    removed: dict[Uuid, RemoveAccessControlEntryRecord] = {}
    results: list[DeleteAclsFilterResult] = []
    for wanted in request.filters:
        try:
            require_known(wanted)
        except KafkaError as error:
            results.append(DeleteAclsFilterResult(error_code=error.code, error_message=error.message))
            continue
        matching = [entry for entry in image.acls.values() if matches(wanted, entry)]
        removed |= {entry.id: RemoveAccessControlEntryRecord(id=entry.id) for entry in matching}
        if len(removed) > RECORDS_MAX:
            raise _invalid(f"Cannot remove more than {RECORDS_MAX} acls in a single delete operation.")
        told = [_deleted(entry) for entry in matching]
        results.append(DeleteAclsFilterResult(error_message=None, matching_acls=told))
    return ControllerDecision(list(removed.values()), DeleteAclsResponse(filter_results=results))


def _deleted(entry: AccessControlEntryRecord) -> DeleteAclsMatchingAcl:
    return DeleteAclsMatchingAcl(
        error_message=None,
        resource_type=entry.resource_type,
        resource_name=entry.resource_name,
        pattern_type=entry.pattern_type,
        principal=entry.principal,
        host=entry.host,
        operation=entry.operation,
        permission_type=entry.permission_type,
    )


def describe_acls(image: MetadataImage, request: DescribeAclsRequest) -> DescribeAclsResponse:
    require_known(request)
    by_pattern: dict[tuple[int, str, int], DescribeAclsResource] = {}
    for entry in image.acls.values():
        if not matches(request, entry):
            continue
        pattern = (entry.resource_type, entry.resource_name, entry.pattern_type)
        resource = by_pattern.get(pattern)
        if resource is None:
            resource = by_pattern[pattern] = DescribeAclsResource(
                resource_type=entry.resource_type, resource_name=entry.resource_name, pattern_type=entry.pattern_type
            )
        resource.acls.append(
            AclDescription(
                principal=entry.principal,
                host=entry.host,
                operation=entry.operation,
                permission_type=entry.permission_type,
            )
        )
    return DescribeAclsResponse(error_message=None, resources=list(by_pattern.values()))
