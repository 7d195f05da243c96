from __future__ import annotations

import asyncio
import struct
from types import SimpleNamespace

import pytest

from barnabas.core.metadata.state import MetadataImage
from barnabas.node.dispatch import Dispatcher
from barnabas.node.handlers import HANDLERS
from barnabas.node.handlers.k18_api_versions import handle
from barnabas.node.requests import ListenerKind, RequestContext, Session
from barnabas.wire.apis import APIS
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse


class FakeNode:
    def __init__(self, image: MetadataImage, controller: dict[int, tuple[int, int]] | None = None) -> None:
        self.image = image
        self.controller = SimpleNamespace(versions=controller or {})


IMAGE = MetadataImage(features={"metadata.version": 25, "kraft.version": 1, "group.version": 0}, offset=17)


def ask(
    version: int,
    *,
    kind: ListenerKind = ListenerKind.BROKER,
    image: MetadataImage = IMAGE,
    software: tuple[str, str] = ("librdkafka", "2.5.0"),
    answered_as: int | None = None,
    controller: dict[int, tuple[int, int]] | None = None,
) -> ApiVersionsResponse:
    dispatcher = Dispatcher(FakeNode(image, controller))
    session = Session(
        listener="L",
        kind=kind,
        security_protocol=0,
        client_host="127.0.0.1",
        client_port=1,
        routes=dispatcher.routes[kind],
    )
    body = b""
    if version >= 3:
        name, software_version = software
        request = ApiVersionsRequest(client_software_name=name, client_software_version=software_version)
        body = b"\x00" + request.encode(min(version, 4))
    answer = dispatcher.serve(session, memoryview(bytearray(struct.pack(">hhih", 18, version, 9, -1) + body)))
    assert isinstance(answer, bytearray)
    assert struct.unpack_from(">ii", answer) == (len(answer) - 4, 9)
    return ApiVersionsResponse.decode(answer[8:], version if answered_as is None else answered_as)


@pytest.mark.parametrize("version", range(5))
@pytest.mark.parametrize("kind", ListenerKind)
def test_the_ranges_are_those_of_the_reference_for_what_exists_on_the_listener(
    kind: ListenerKind, version: int
) -> None:
    response = ask(version, kind=kind)
    expected = {}
    for api_key in sorted(HANDLERS):
        versions = APIS[api_key].broker if kind is ListenerKind.BROKER else APIS[api_key].controller
        if versions:
            expected[api_key] = versions
    assert response.error_code == 0
    assert {api.api_key: (api.min_version, api.max_version) for api in response.api_keys} == expected
    assert [api.api_key for api in response.api_keys] == list(expected)


def test_of_what_is_forwarded_only_what_the_active_controller_knows_is_offered() -> None:
    known = {19: (2, 5), 20: (7, 9), 1: (4, 4)}  # CreateTopics up to 5, DeleteTopics from 7 on, an older Fetch
    shown = {api.api_key: (api.min_version, api.max_version) for api in ask(4, controller=known).api_keys}
    assert shown[19] == (2, 5)
    assert 20 not in shown  # nothing in common
    assert 37 not in shown  # CreatePartitions: the controller does not have it
    assert shown[1] == APIS[1].broker  # served here
    at_controller = ask(4, kind=ListenerKind.CONTROLLER, controller=known).api_keys
    assert 37 in {api.api_key for api in at_controller}


def test_features_whose_lowest_level_is_zero_are_shown_from_version_4_on() -> None:
    third, fourth = ask(3), ask(4)
    assert [(item.name, item.min_version, item.max_version) for item in third.supported_features] == [
        ("metadata.version", 25, 30)
    ]
    assert [(item.name, item.min_version, item.max_version) for item in fourth.supported_features] == [
        ("eligible.leader.replicas.version", 0, 1),
        ("group.version", 0, 1),
        ("kraft.version", 0, 1),
        ("metadata.version", 25, 30),
        ("share.version", 0, 1),
        ("streams.version", 0, 1),
        ("transaction.version", 0, 2),
    ]
    for response in (third, fourth):
        assert response.finalized_features_epoch == 17
        assert [
            (item.name, item.min_version_level, item.max_version_level) for item in response.finalized_features
        ] == [("kraft.version", 1, 1), ("metadata.version", 25, 25)]


def test_before_there_is_an_image_the_epoch_is_unknown() -> None:
    response = ask(4, image=MetadataImage())
    assert response.finalized_features_epoch == -1
    assert response.finalized_features == []


@pytest.mark.parametrize("version", [5, 99, 32767, -1])
def test_an_unknown_version_is_answered_as_version_0_with_the_range_to_use(version: int) -> None:
    response = ask(version, answered_as=0)
    assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert [(api.api_key, api.min_version, api.max_version) for api in response.api_keys] == [(18, 0, 4)]


@pytest.mark.parametrize("software", [("", "1"), ("x", ""), ("-x", "1"), ("x", "1."), ("a b", "1"), ("ä", "1")])
def test_a_malformed_software_name_or_version_is_an_invalid_request(software: tuple[str, str]) -> None:
    response = ask(3, software=software)
    assert response.error_code == ErrorCode.INVALID_REQUEST
    assert response.api_keys == []


def test_the_session_remembers_the_clients_software() -> None:
    session = Session(
        listener="L", kind=ListenerKind.BROKER, security_protocol=0, client_host="h", client_port=1, routes={}
    )
    request = ApiVersionsRequest(client_software_name="apache-kafka-java", client_software_version="4.3.1")
    asyncio.run(handle(RequestContext(session, 18, 4, 1, None), request, FakeNode(IMAGE)))  # type: ignore[arg-type]
    assert (session.client_software_name, session.client_software_version) == ("apache-kafka-java", "4.3.1")
