from __future__ import annotations

import pytest

from barnabas.core.security.model import Operation, Resource, ResourceType
from barnabas.node.requests import ListenerKind, RequestContext, Session
from barnabas.wire.errors import ErrorCode, KafkaError


class OnlyDescribe:
    def allows(self, principal: str, host: str, operation: Operation, resource: Resource) -> bool:
        return operation is Operation.DESCRIBE

    would_allow = allows

    def allows_any(self, principal: str, host: str, operation: Operation, kind: ResourceType) -> bool:
        return operation is Operation.DESCRIBE


def context_of(access: OnlyDescribe | None = None) -> RequestContext:
    session = Session(
        listener="L",
        kind=ListenerKind.BROKER,
        security_protocol=0,
        client_host="h",
        client_port=1,
        routes={},
        access=access,
    )
    return RequestContext(session, 3, 12, 1, "me")


def test_everybody_may_do_everything_for_now() -> None:
    context = context_of()
    context.authorize(Operation.DELETE, Resource.topic("t"))
    assert context.authorized_operations(Resource.topic("t")) == 3576


def test_a_denial_is_the_error_of_its_resource_and_does_not_show_in_the_operations() -> None:
    context = context_of(OnlyDescribe())
    context.authorize(Operation.DESCRIBE, Resource.topic("t"))
    with pytest.raises(KafkaError) as denied:
        context.authorize(Operation.READ, Resource.group("g"))
    assert denied.value.code is ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert context.authorized_operations(Resource.topic("t")) == 1 << Operation.DESCRIBE
