"""A connection is negotiated with brokers of any age, and says plainly why it cannot be."""

from __future__ import annotations

import socket
import time
from typing import Any

import pytest

from barnabas.client.connection import Connection
from barnabas.client.errors import (
    AuthenticationFailed,
    BrokerUnreachable,
    ConnectionLost,
    Refused,
    TimedOut,
    UnreadableAnswer,
    UnsupportedByBroker,
)
from barnabas.client.settings import ClientSettings
from barnabas.wire.messages.api_versions import (
    ApiVersion,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from barnabas.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from barnabas.wire.messages.list_groups import ListGroupsRequest
from barnabas.wire.messages.sasl_authenticate import SaslAuthenticateResponse
from barnabas.wire.messages.sasl_handshake import SaslHandshakeResponse


def connect(broker: Any, **properties: str) -> Connection:
    return Connection(("127.0.0.1", broker.port), broker.settings(**properties))


def unknown_name(*_: object, **__: object) -> None:
    """As a resolver does, without the seconds that some take."""
    raise socket.gaierror(-2, "unknown")


def offering(*ranges: tuple[int, int, int]) -> list[ApiVersion]:
    return [ApiVersion(api_key=key, min_version=low, max_version=high) for key, low, high in ranges]


def test_versions_and_features_are_asked_for_first(scripted: Any) -> None:
    answer = ApiVersionsResponse(
        api_keys=offering((12, 0, 2), (16, 9, 12)),
        supported_features=[SupportedFeatureKey(name="metadata.version", min_version=7, max_version=27)],
        finalized_features=[FinalizedFeatureKey(name="metadata.version", max_version_level=25, min_version_level=25)],
        finalized_features_epoch=3,
    )
    broker = scripted({18: lambda request, version: answer, 12: lambda request, version: HeartbeatResponse()})
    with connect(broker) as connection:
        assert connection.features == ({"metadata.version": (7, 27)}, {"metadata.version": 25}, 3)
        connection.request(HeartbeatRequest())
        with pytest.raises(UnsupportedByBroker, match=r"ListGroups in versions 9 to 12, and this client in 0 to 5\.$"):
            connection.request(ListGroupsRequest())
        del connection.versions[16]  # type: ignore[attr-defined]
        with pytest.raises(UnsupportedByBroker, match=r"does not know ListGroups\.$"):
            connection.request(ListGroupsRequest())
    assert broker.seen == [("api_versions", 4), ("heartbeat", 2)]
    assert broker.requests[0].client_software_name == "barnabas"


def test_an_older_broker_names_its_versions_and_is_asked_again(scripted: Any) -> None:
    def versions(request: object, version: int) -> ApiVersionsResponse:
        if version > 2:
            return ApiVersionsResponse(error_code=35, api_keys=offering((18, 0, 2)))
        return ApiVersionsResponse(api_keys=offering((18, 0, 2), (12, 0, 1)))

    broker = scripted({18: versions})
    with connect(broker) as connection:
        assert connection.version_of(HeartbeatRequest) == 1
    assert broker.seen == [("api_versions", 4), ("api_versions", 2)]
    assert broker.connections == 1


def test_a_broker_that_closes_instead_is_asked_in_the_oldest_form(scripted: Any) -> None:
    def versions(request: object, version: int) -> ApiVersionsResponse | None:
        return None if version else ApiVersionsResponse(api_keys=offering((12, 0, 0)))

    broker = scripted({18: versions})
    with connect(broker) as connection:
        assert connection.version_of(HeartbeatRequest) == 0
    assert broker.seen == [("api_versions", 4), ("api_versions", 0)]
    assert broker.connections == 2


def test_a_broker_that_always_closes_is_asked_for_its_protocol(scripted: Any) -> None:
    with pytest.raises(
        ConnectionLost, match=r"before it answered ApiVersions \(security\.protocol is PLAINTEXT: is that"
    ):
        connect(scripted({18: lambda request, version: None}))


def test_who_speaks_something_else_is_found_out(scripted: Any) -> None:
    with pytest.raises(UnreadableAnswer, match="It seems to want TLS"):
        connect(scripted({18: lambda request, version: b"\x15\x03\x03\x00\x02\x02\x50"}))
    with pytest.raises(UnreadableAnswer, match="does not answer as a Kafka broker"):
        connect(scripted({18: lambda request, version: b"HTTP/1.1 400 Bad Request\r\n"}))
    with pytest.raises(UnreadableAnswer, match="answer to ApiVersions version 4 that cannot be read"):
        connect(scripted({18: lambda request, version: b"\0\0\0\x08\0\0\0\x01\0\0\0\x09"}))


def test_an_answer_that_does_not_come_ends_the_connection(scripted: Any) -> None:
    broker = scripted({12: lambda request, version: b""})
    connection = connect(broker)
    before = time.monotonic()
    with pytest.raises(TimedOut, match=r"did not answer Heartbeat in time\.$"):
        connection.request(HeartbeatRequest(), timeout_ms=50)
    assert 0.04 < time.monotonic() - before < 4
    assert connection.closed


def test_an_interrupt_ends_the_connection_since_an_answer_is_in_the_way(
    scripted: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = scripted({12: lambda request, version: HeartbeatResponse()})
    connection = connect(broker)

    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(connection, "receive", interrupted)
    with pytest.raises(KeyboardInterrupt):
        connection.request(HeartbeatRequest())
    assert connection.closed


def test_answers_come_in_the_order_of_requests(scripted: Any) -> None:
    broker = scripted({12: lambda request, version: HeartbeatResponse(error_code=request.generation_id)})
    with connect(broker) as connection:
        for number in range(5):
            connection.send(HeartbeatRequest(generation_id=number))
        assert connection.in_flight == 5
        assert [connection.receive().error_code for _ in range(5)] == [0, 1, 2, 3, 4]


def test_addresses_that_lead_nowhere_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = ClientSettings.from_properties({}, bootstrap_servers="a:1")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(BrokerUnreachable, match=rf"^127\.0\.0\.1:{port} cannot be reached: connection refused\.$"):
        Connection(("127.0.0.1", port), settings)
    monkeypatch.setattr(socket, "getaddrinfo", unknown_name)
    with pytest.raises(BrokerUnreachable, match=r"the name no-such-host\.invalid does not resolve\.$"):
        Connection(("no-such-host.invalid", 9092), settings)


def test_an_ipv6_address_is_as_good_as_another(scripted: Any) -> None:
    try:
        broker = scripted({12: lambda request, version: HeartbeatResponse()}, host="::1")
    except OSError:
        pytest.skip("there is no IPv6 here")
    settings = ClientSettings.from_properties({}, bootstrap_servers=f"[::1]:{broker.port}")
    with Connection(settings.bootstrap_servers[0], settings) as connection:
        assert connection.request(HeartbeatRequest()).error_code == 0
        assert connection.peer == f"[::1]:{broker.port}"


def test_a_refusal_to_say_anything_is_told(scripted: Any) -> None:
    with pytest.raises(Refused, match="INVALID_REQUEST"):
        connect(scripted({18: lambda request, version: ApiVersionsResponse(error_code=42)}))


LOGIN = {
    "security_protocol": "SASL_PLAINTEXT",
    "sasl_mechanism": "PLAIN",
    "sasl_jaas_config": 'a.PlainLoginModule required username="anna" password="x";',
}


def test_a_login_follows_the_versions_and_is_repeated_before_its_session_ends(scripted: Any) -> None:
    broker = scripted(
        {
            17: lambda request, version: SaslHandshakeResponse(mechanisms=["PLAIN"]),
            36: lambda request, version: SaslAuthenticateResponse(session_lifetime_ms=60),
            12: lambda request, version: HeartbeatResponse(),
        }
    )
    with connect(broker, **LOGIN) as connection:
        connection.request(HeartbeatRequest())
        time.sleep(0.06)
        connection.request(HeartbeatRequest())
    login = [("sasl_handshake", 1), ("sasl_authenticate", 2)]
    assert broker.seen == [("api_versions", 4), *login, ("heartbeat", 4), *login, ("heartbeat", 4)]
    assert broker.requests[2].auth_bytes == b"\0anna\0x"


def test_a_refused_login_says_why(scripted: Any) -> None:
    broker = scripted(
        {
            17: lambda request, version: SaslHandshakeResponse(mechanisms=["PLAIN"]),
            36: lambda request, version: SaslAuthenticateResponse(error_code=58, error_message="Wrong password."),
        }
    )
    with pytest.raises(AuthenticationFailed, match=r"refused the login of anna: Wrong password\.$"):
        connect(broker, **LOGIN)
    broker = scripted(
        {17: lambda request, version: SaslHandshakeResponse(error_code=33, mechanisms=["SCRAM-SHA-256", "GSSAPI"])}
    )
    with pytest.raises(AuthenticationFailed, match=r"does not take PLAIN; it offers SCRAM-SHA-256, GSSAPI\.$"):
        connect(broker, **LOGIN)
