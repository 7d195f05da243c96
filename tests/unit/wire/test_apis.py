"""The table of APIs and the headers around them."""

import pytest

from barnabas.wire.apis import APIS, message_classes, request_header_version, response_header_version
from barnabas.wire.headers import RequestHeader, ResponseHeader
from barnabas.wire.schema import Request, Response


@pytest.mark.parametrize("api_key", APIS)
def test_an_api_has_a_request_and_a_response_of_the_same_versions(api_key: int) -> None:
    request, response = message_classes(api_key)
    assert issubclass(request, Request)
    assert issubclass(response, Response)
    assert request.api_key == response.api_key == api_key
    assert request.valid_versions == response.valid_versions
    assert request.flexible_since == response.flexible_since
    name = "".join(word.title() for word in APIS[api_key].name.split("_"))
    assert (request.__name__, response.__name__) == (f"{name}Request", f"{name}Response")


@pytest.mark.parametrize("api_key", APIS)
def test_what_is_advertised_can_be_read(api_key: int) -> None:
    low, high = message_classes(api_key)[0].valid_versions
    for advertised in (APIS[api_key].broker, APIS[api_key].controller):
        if advertised is not None:
            # Produce is advertised from 0 for the sake of older librdkafka.
            assert advertised[0] >= low or api_key == 0
            assert advertised[1] <= high


def test_flexible_versions_have_flexible_headers_and_api_versions_is_answered_with_the_oldest() -> None:
    produce, api_versions = message_classes(0)[0], message_classes(18)[0]
    assert [request_header_version(produce, version) for version in (8, 9)] == [1, 2]
    assert [response_header_version(produce, version) for version in (8, 9)] == [0, 1]
    assert [request_header_version(api_versions, version) for version in (2, 3)] == [1, 2]
    assert [response_header_version(api_versions, version) for version in (2, 3)] == [0, 0]


def test_the_client_id_is_never_compact() -> None:
    header = RequestHeader(request_api_key=18, request_api_version=3, correlation_id=7, client_id="anna")
    assert header.encode(2) == b"\0\x12\0\3\0\0\0\7\0\4anna\0"
    assert header.encode(1) == b"\0\x12\0\3\0\0\0\7\0\4anna"
    assert RequestHeader(client_id=None).encode(2).endswith(b"\xff\xff\0")
    assert ResponseHeader(correlation_id=7).encode(1) == b"\0\0\0\7\0"
