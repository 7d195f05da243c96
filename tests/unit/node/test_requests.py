from __future__ import annotations

import pytest

from barnabas.core.security.model import Operation, Resource
from barnabas.node.requests import ListenerKind, RequestContext, Session
from barnabas.wire.errors import ErrorCode, KafkaError


def context_of(context_type: type[RequestContext] = RequestContext) -> RequestContext:
    session = Session(
        listener="L", kind=ListenerKind.BROKER, security_protocol=0, client_host="h", client_port=1, routes={}
    )
    return context_type(session, 3, 12, 1, "me")


class OnlyDescribe(RequestContext):
    __slots__ = ()

    may_everything = False

    def may(self, operation: Operation, resource: Resource) -> bool:
        return operation is Operation.DESCRIBE


def test_everybody_may_do_everything_for_now() -> None:
    context = context_of()
    context.authorize(Operation.DELETE, Resource.topic("t"))
    assert context.authorized_operations(Resource.topic("t")) == 3576


def test_a_denial_is_the_error_of_its_resource_and_does_not_show_in_the_operations() -> None:
    context = context_of(OnlyDescribe)
    context.authorize(Operation.DESCRIBE, Resource.topic("t"))
    with pytest.raises(KafkaError) as denied:
        context.authorize(Operation.READ, Resource.group("g"))
    assert denied.value.code is ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert context.authorized_operations(Resource.topic("t")) == 1 << Operation.DESCRIBE
