"""A peer is asked from an event loop, over real sockets, whatever it does."""

from __future__ import annotations

import asyncio
import shutil
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import uvloop

from barnabas.client.errors import (
    AuthenticationFailed,
    BrokerUnreachable,
    ConnectionLost,
    TimedOut,
    UnreadableAnswer,
    UnsupportedByBroker,
)
from barnabas.client.loop_connection import LoopConnection
from barnabas.client.peer import Peer, PeerSettings
from barnabas.client.security import SecuritySettings
from barnabas.client.settings import ClientSettings
from barnabas.wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from barnabas.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from barnabas.wire.messages.list_groups import ListGroupsRequest
from barnabas.wire.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseTopic
from barnabas.wire.messages.sasl_authenticate import SaslAuthenticateResponse
from barnabas.wire.messages.sasl_handshake import SaslHandshakeResponse
from tests.support.waiting import until

LIMIT_S = 20.0
LOOPS: list[Callable[[], asyncio.AbstractEventLoop]] = [asyncio.new_event_loop, uvloop.new_event_loop]
Run = Callable[[Awaitable[Any]], Any]


@pytest.fixture(params=LOOPS, ids=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Iterator[Run]:
    async def limited(story: Awaitable[Any]) -> Any:
        async with asyncio.timeout(LIMIT_S):
            return await story

    with asyncio.Runner(loop_factory=request.param) as runner:
        yield lambda story: runner.run(limited(story))


def peer_of(broker: Any, **settings: Any) -> Peer:
    quick = {"reconnect_backoff_ms": 1, "request_timeout_ms": 5_000}
    return Peer(("127.0.0.1", broker.port), PeerSettings(**quick | settings))


def echo(request: Any, version: int) -> HeartbeatResponse:
    return HeartbeatResponse(error_code=request.generation_id)


def beat(number: int = 0) -> HeartbeatRequest:
    return HeartbeatRequest(generation_id=number)


def test_answers_come_to_who_asked_in_the_newest_version_both_know(scripted: Any, run: Run) -> None:
    offered = ApiVersionsResponse(api_keys=[ApiVersion(api_key=12, min_version=0, max_version=2)])
    broker = scripted({18: lambda request, version: offered, 12: echo})

    async def story() -> None:
        async with peer_of(broker) as peer:
            answers = await asyncio.gather(*(peer.send(beat(number)) for number in range(40)))
            assert [answer.error_code for answer in answers] == list(range(40))
            assert (await peer.send(beat(7), 1)).error_code == 7
            with pytest.raises(UnsupportedByBroker, match="does not know ListGroups"):
                await peer.send(ListGroupsRequest())
            assert (await peer.send(beat(8))).error_code == 8
            assert peer.connected

    run(story())
    assert broker.seen == [("api_versions", 4), *[("heartbeat", 2)] * 40, ("heartbeat", 1), ("heartbeat", 2)]
    assert [request.generation_id for request in broker.requests[1:41]] == list(range(40)), "sent out of order"
    assert broker.connections == 1


def test_without_negotiation_a_given_version_is_sent_at_once(scripted: Any, run: Run) -> None:
    broker = scripted({12: echo})

    async def story() -> None:
        async with peer_of(broker, negotiate=False) as peer:
            assert (await peer.send(beat(3), 4)).error_code == 3

    run(story())
    assert broker.seen == [("heartbeat", 4)]


def test_no_more_than_the_bound_is_in_flight(scripted: Any, run: Run) -> None:
    go_on = threading.Event()

    def slow(request: Any, version: int) -> HeartbeatResponse:
        assert go_on.wait(LIMIT_S)
        return echo(request, version)

    broker = scripted({12: slow})

    async def story() -> None:
        async with peer_of(broker, in_flight_max=2) as peer:
            asked = [asyncio.create_task(peer.send(beat(number))) for number in range(5)]
            await until(lambda: peer.in_flight == 2)
            assert peer.waiting == 3
            go_on.set()
            assert [answer.error_code for answer in await asyncio.gather(*asked)] == [0, 1, 2, 3, 4]
            assert (peer.in_flight, peer.waiting) == (0, 0)

    run(story())


def test_large_and_small_answers_are_read_in_any_pieces(scripted: Any, run: Run) -> None:
    def topics(request: Any, version: int) -> MetadataResponse:
        count = len(request.topics)
        return MetadataResponse(topics=[MetadataResponseTopic(name=f"topic-{number}") for number in range(count)])

    broker = scripted({3: topics, 12: echo})

    async def story() -> None:
        from barnabas.wire.messages.metadata import MetadataRequestTopic

        def ask(count: int) -> MetadataRequest:
            return MetadataRequest(topics=[MetadataRequestTopic(name="x")] * count)

        async with peer_of(broker) as peer:
            counts = [1, 6_000, 0, 2_000, 3, 10_000, 1]
            asked: list[Awaitable[Any]] = []
            for count in counts:
                asked += [peer.send(ask(count)), peer.send(beat(count % 100))]
            answers = await asyncio.gather(*asked)
            assert [len(answer.topics) for answer in answers[::2]] == counts
            assert [answer.error_code for answer in answers[1::2]] == [count % 100 for count in counts]
            assert answers[10].topics[-1].name == "topic-9999"

    run(story())


def test_a_peer_that_is_not_there_is_named_and_tried_again_after_a_pause(scripted: Any, run: Run) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]

    async def story() -> None:
        settings = PeerSettings(reconnect_backoff_ms=100, reconnect_backoff_max_ms=400)
        async with Peer(("127.0.0.1", port), settings) as peer:
            moments = []
            for _ in range(3):
                with pytest.raises(
                    BrokerUnreachable, match=rf"^127\.0\.0\.1:{port} cannot be reached: connection refused\.$"
                ):
                    await peer.send(beat())
                moments.append(time.monotonic())
            assert moments[1] - moments[0] > 0.07
            assert moments[2] - moments[1] > 0.15
            with pytest.raises(
                TimedOut, match=r"Heartbeat could not be sent to 127.* in time: .*connection refused\.$"
            ):
                await peer.send(beat(), timeout_ms=20)
            scripted({12: echo}, port=port)
            assert (await peer.send(beat(9))).error_code == 9

    run(story())


def test_a_name_that_does_not_resolve_is_said_to_be_so(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown_name(*_: object, **__: object) -> None:
        raise socket.gaierror(-2, "unknown")

    async def story() -> None:
        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", unknown_name, raising=False)
        async with Peer(("no-such-host.invalid", 9092)) as peer:
            with pytest.raises(BrokerUnreachable, match=r"the name no-such-host\.invalid does not resolve\.$"):
                await peer.send(beat())

    if isinstance(run(running_loop()), uvloop.Loop):
        pytest.skip("this loop's resolver cannot be replaced")
    run(story())


async def running_loop() -> asyncio.AbstractEventLoop:
    return asyncio.get_running_loop()


def test_a_peer_that_goes_away_fails_what_is_in_flight_and_is_found_again(scripted: Any, run: Run) -> None:
    gone = threading.Event()

    def first_dies(request: Any, version: int) -> HeartbeatResponse | None:
        return echo(request, version) if gone.is_set() else None

    broker = scripted({12: first_dies})

    async def story() -> None:
        async with peer_of(broker) as peer:
            asked = [asyncio.create_task(peer.send(beat(number))) for number in range(3)]
            errors = await asyncio.gather(*asked, return_exceptions=True)
            assert [type(error) for error in errors] == [ConnectionLost] * 3
            assert str(errors[2]) == f"{peer.name} closed the connection before it answered Heartbeat."
            gone.set()
            assert (await peer.send(beat(5))).error_code == 5
            broker.drop_connections()
            await until(lambda: not peer.connected)
            assert (await peer.send(beat(6))).error_code == 6

    run(story())
    assert broker.connections == 3


def test_what_waits_behind_a_connection_that_ends_is_sent_on_the_next(scripted: Any, run: Run) -> None:
    go_on = threading.Event()

    def first_dies(request: Any, version: int) -> HeartbeatResponse | None:
        if request.generation_id:
            return echo(request, version)
        go_on.wait(LIMIT_S)
        return None

    broker = scripted({12: first_dies})

    async def story() -> None:
        async with peer_of(broker, in_flight_max=1) as peer:
            asked = [asyncio.create_task(peer.send(beat(number))) for number in range(3)]
            await until(lambda: peer.in_flight == 1)
            go_on.set()
            lost, *answers = await asyncio.gather(*asked, return_exceptions=True)
            assert isinstance(lost, ConnectionLost)
            assert [answer.error_code for answer in answers] == [1, 2]  # type: ignore[union-attr]

    run(story())


def test_an_answer_that_never_comes_ends_the_connection_and_not_the_peer(scripted: Any, run: Run) -> None:
    broker = scripted({12: lambda request, version: b"" if request.generation_id == 1 else echo(request, version)})

    async def story() -> None:
        async with peer_of(broker) as peer:
            asked = [
                asyncio.create_task(peer.send(beat(1), timeout_ms=60)),
                asyncio.create_task(peer.send(beat(1), timeout_ms=4_000)),
            ]
            errors = await asyncio.gather(*asked, return_exceptions=True)
            assert [type(error) for error in errors] == [TimedOut, ConnectionLost]
            assert str(errors[0]) == f"{peer.name} did not answer Heartbeat in time."
            assert (await peer.send(beat(2))).error_code == 2

    run(story())
    assert broker.connections == 2


def test_a_peer_that_accepts_and_says_nothing_is_given_up(scripted: Any, run: Run) -> None:
    broker = scripted({18: lambda request, version: b""})

    async def story() -> None:
        async with peer_of(broker) as peer:
            with pytest.raises(TimedOut, match=r"^Heartbeat could not be sent to 127\.0\.0\.1:\d+ in time\.$"):
                await peer.send(beat(), timeout_ms=60)
        async with peer_of(broker, request_timeout_ms=60) as peer:
            with pytest.raises(TimedOut, match="did not answer ApiVersions in time"):
                await peer.send(beat(), timeout_ms=4_000)

    run(story())


def test_a_cancelled_question_leaves_the_connection_and_its_answer_is_dropped(scripted: Any, run: Run) -> None:
    go_on = threading.Event()

    def slow(request: Any, version: int) -> HeartbeatResponse:
        if request.generation_id == 1:
            assert go_on.wait(LIMIT_S)
        return echo(request, version)

    broker = scripted({12: slow})

    async def story() -> None:
        async with peer_of(broker, in_flight_max=1) as peer:
            asked = [asyncio.create_task(peer.send(beat(number))) for number in (1, 2, 3)]
            await until(lambda: peer.in_flight == 1)
            asked[0].cancel()
            asked[1].cancel()
            await asyncio.gather(*asked[:2], return_exceptions=True)
            go_on.set()
            assert (await asked[2]).error_code == 3
        assert [request.generation_id for request in broker.requests[1:]] == [1, 3]

    run(story())
    assert broker.connections == 1


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (b"\x15\x03\x03\x00\x02\x02\x50", "It seems to want TLS"),
        (b"HTTP/1.1 400 Bad Request\r\n", "does not answer as a Kafka broker"),
        (b"\0\0\0\0", "does not answer as a Kafka broker"),
        (b"\xff\xff\xff\xff", "does not answer as a Kafka broker"),
        (b"\0\0\0\x09\0\0\0\x63\0\0\0\0\0", "answer 99 came where 2 was due"),
        (b"\0\0\0\x06\0\0\0\x02\0\0", r"answer to Heartbeat version 4 that cannot be read"),
    ],
)
def test_garbage_ends_the_connection_with_what_is_wrong(scripted: Any, run: Run, said: bytes, why: str) -> None:
    broker = scripted({12: lambda request, version: echo(request, version) if request.generation_id else said})

    async def story() -> None:
        async with peer_of(broker) as peer:
            with pytest.raises(UnreadableAnswer, match=why):
                await peer.send(beat())
            assert (await peer.send(beat(1))).error_code == 1

    run(story())
    assert broker.connections == 2


def test_an_answer_to_nothing_ends_the_connection(scripted: Any, run: Run) -> None:
    unasked = b"\0\0\0\x0b" + bytes(11)

    def twice(request: Any, version: int) -> bytes:
        answer = b"\0\0\0\x0c" + b"\0\0\0\x02" + b"\0" + bytes(7)
        return answer + unasked if request.generation_id else answer

    broker = scripted({12: twice})

    async def story() -> None:
        async with peer_of(broker) as peer:
            await peer.send(beat(1))
            await until(lambda: not peer.connected)

    run(story())


def test_closing_fails_what_is_in_flight_and_what_comes_after(scripted: Any, run: Run) -> None:
    broker = scripted({12: lambda request, version: b""})

    async def story() -> None:
        peer = peer_of(broker, in_flight_max=1)
        asked = [asyncio.create_task(peer.send(beat())) for _ in range(2)]
        await until(lambda: peer.in_flight == 1)
        await peer.close()
        errors = await asyncio.gather(*asked, return_exceptions=True)
        assert [type(error) for error in errors] == [ConnectionLost, BrokerUnreachable]
        with pytest.raises(BrokerUnreachable, match="was closed here"):
            await peer.send(beat())
        await peer.close()

    run(story())


def test_closing_ends_a_connection_that_is_being_made(scripted: Any, run: Run) -> None:
    broker = scripted({18: lambda request, version: b""})

    async def story() -> None:
        peer = peer_of(broker)
        asked = asyncio.create_task(peer.send(beat()))
        await until(lambda: bool(broker.seen))
        await peer.close()
        with pytest.raises(BrokerUnreachable, match="was closed here"):
            await asked

    run(story())


LOGIN = SecuritySettings(protocol="SASL_PLAINTEXT", mechanism="PLAIN", username="anna", password="x")


def test_a_login_is_repeated_when_its_session_is_about_to_end_and_nothing_is_in_flight(scripted: Any, run: Run) -> None:
    broker = scripted(
        {
            17: lambda request, version: SaslHandshakeResponse(mechanisms=["PLAIN"]),
            36: lambda request, version: SaslAuthenticateResponse(session_lifetime_ms=200),
            12: echo,
        }
    )

    async def story() -> None:
        async with peer_of(broker, security=LOGIN, negotiate=False) as peer:
            await peer.send(beat(), 4)
            await asyncio.sleep(0.2)
            answers = await asyncio.gather(*(peer.send(beat(number), 4) for number in range(3)))
            assert [answer.error_code for answer in answers] == [0, 1, 2]

    run(story())
    login = [("sasl_handshake", 1), ("sasl_authenticate", 2)]
    assert broker.seen == [("api_versions", 4), *login, ("heartbeat", 4), *login, *[("heartbeat", 4)] * 3]
    assert broker.connections == 1


def test_a_refused_login_says_why_and_is_tried_again_for_the_next_question(scripted: Any, run: Run) -> None:
    known = threading.Event()
    broker = scripted(
        {
            17: lambda request, version: SaslHandshakeResponse(mechanisms=["PLAIN"]),
            36: lambda request, version: (
                SaslAuthenticateResponse()
                if known.is_set()
                else SaslAuthenticateResponse(error_code=58, error_message="Wrong password.")
            ),
            12: echo,
        }
    )

    async def story() -> None:
        async with peer_of(broker, security=LOGIN) as peer:
            with pytest.raises(AuthenticationFailed, match=r"refused the login of anna: Wrong password\.$"):
                await peer.send(beat())
            known.set()
            assert (await peer.send(beat(4))).error_code == 4

    run(story())


def test_a_peer_is_closed_in_the_moment_in_which_it_connects(
    scripted: Any, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """uvloop closes the connection then, and does not tell its protocol: a node waited for that when it stopped."""
    broker = scripted({12: echo})
    made = LoopConnection.connection_made

    async def story() -> None:
        peer = peer_of(broker, negotiate=False)
        closing = asyncio.get_running_loop().create_future()

        def close_at_once(connection: LoopConnection, transport: asyncio.BaseTransport) -> None:
            made(connection, transport)
            closing.set_result(asyncio.create_task(peer.close()))

        monkeypatch.setattr(LoopConnection, "connection_made", close_at_once)
        with pytest.raises(BrokerUnreachable, match="closed here"):
            await peer.send(beat(), 4)
        await (await closing)
        assert not peer.connected

    run(story())


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Key and certificate of 127.0.0.1 in one file."""
    if shutil.which("openssl") is None:
        pytest.skip("certificates are made with openssl, which is not there")
    both = tmp_path_factory.mktemp("certificate") / "both.pem"
    command = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=a -addext subjectAltName=IP:127.0.0.1"
    subprocess.run([*command.split(), "-keyout", both, "-out", f"{both}.crt"], check=True, capture_output=True)
    both.write_text(both.read_text() + Path(f"{both}.crt").read_text())
    return both


def test_tls_is_spoken_to_who_is_trusted(scripted: Any, run: Run, certificate: Path) -> None:
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(certificate)
    broker = scripted({12: echo}, tls=server)
    properties = {"security.protocol": "SSL", "ssl.truststore.type": "PEM", "ssl.truststore.location": str(certificate)}
    settings = ClientSettings.from_properties(properties, bootstrap_servers=f"127.0.0.1:{broker.port}")

    async def story() -> None:
        async with Peer(settings.bootstrap_servers[0], PeerSettings.from_client(settings)) as peer:
            answers = await asyncio.gather(*(peer.send(beat(number)) for number in range(20)))
            assert [answer.error_code for answer in answers] == list(range(20))
        async with peer_of(broker, security=SecuritySettings(protocol="SSL")) as peer:
            with pytest.raises(AuthenticationFailed, match=r"^The certificate of 127.* is not trusted: .*\.$"):
                await peer.send(beat())
        async with peer_of(broker, request_timeout_ms=2_000) as peer:
            with pytest.raises((ConnectionLost, UnreadableAnswer), match=r"TLS|security\.protocol is PLAINTEXT"):
                await peer.send(beat())
        with socket.create_server(("127.0.0.1", 0)) as silent:
            address = silent.getsockname()
            impatient = PeerSettings(security=settings.security, connection_setup_timeout_ms=100)
            async with Peer(address, impatient) as peer:
                with pytest.raises(BrokerUnreachable, match=r"no answer within 0\.1 s \(does it speak TLS\?\)\.$"):
                    await peer.send(beat())

    run(story())
