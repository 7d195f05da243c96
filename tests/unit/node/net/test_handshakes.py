"""TLS handshakes under way: who stops amid one is let go, and honest clients get in beside many who do."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import ClassVar

import pytest

from barnabas.client.certificates import make_certificates
from barnabas.node.log_limiter import LogLimiter
from barnabas.node.net import handshakes
from barnabas.node.net.handshakes import TlsAcceptor
from tests.support.waiting import until

HALF: list[asyncio.StreamWriter] = []


class Echo(asyncio.Protocol):
    open: ClassVar[set[Echo]] = set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self.open.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self.open.remove(self)

    def data_received(self, data: bytes) -> None:
        self._transport.write(data)  # type: ignore[attr-defined]


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("certificates")
    make_certificates(directory, ["localhost"], [], password="changeit", days=2)
    return directory


@asynccontextmanager
async def listening(certificates: Path, most: int = 100) -> AsyncIterator[tuple[TlsAcceptor, int]]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates / "server.pem", certificates / "server.key")
    bound = socket.socket()
    bound.bind(("127.0.0.1", 0))

    def has_room(host: str, coming: int, from_host: int) -> bool:
        assert host == "127.0.0.1"
        assert coming == from_host
        return coming < most

    acceptor = TlsAcceptor("SSL", bound, 100, lambda: context, Echo, has_room, LogLimiter())
    await acceptor.start_serving()
    try:
        yield acceptor, bound.getsockname()[1]
    finally:
        for writer in HALF:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()
        HALF.clear()
        acceptor.close()
        await until(lambda: not acceptor._handshakes and not Echo.open)
        await asyncio.sleep(0.01)


async def echoes(certificates: Path, port: int) -> bool:
    context = ssl.create_default_context(cafile=str(certificates / "ca.pem"))
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname="localhost")
    writer.write(b"hello")
    answered = await reader.readexactly(5) == b"hello"
    writer.close()
    await writer.wait_closed()
    return answered


async def half(port: int, beginning: bytes = b"") -> asyncio.StreamReader:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(beginning)
    HALF.append(writer)
    return reader


async def test_one_that_stops_amid_its_handshake_is_closed_after_a_while(
    certificates: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(handshakes, "HANDSHAKE_TIMEOUT_S", 0.2)
    with caplog.at_level(logging.WARNING):
        async with listening(certificates) as (_, port):
            silent, begun = await half(port), await half(port, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")
            for reader in (silent, begun):
                assert await asyncio.wait_for(reader.read(), 10) == b""
            assert await echoes(certificates, port)
    (line,) = [record.getMessage() for record in caplog.records]
    assert "did not finish its TLS handshake" in line


async def test_when_many_wait_the_oldest_gives_way(certificates: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handshakes, "HANDSHAKES_MAX", 3)
    async with listening(certificates) as (acceptor, port):
        waiting = [await half(port) for _ in range(4)]
        assert await asyncio.wait_for(waiting[0].read(), 10) == b""
        assert await echoes(certificates, port)
        assert await asyncio.wait_for(waiting[1].read(), 10) == b""
        await until(lambda: len(acceptor._handshakes) == 2)
        assert not waiting[3].at_eof()


async def test_handshakes_count_within_the_limits_of_connections(certificates: Path) -> None:
    async with listening(certificates, most=2) as (acceptor, port):
        waiting = [await half(port) for _ in range(3)]
        assert await asyncio.wait_for(waiting[2].read(), 10) == b""
        for writer in HALF[:2]:
            writer.close()
        await until(lambda: not acceptor._handshakes)
        assert await echoes(certificates, port)


async def test_plain_text_is_told_in_the_log(certificates: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with listening(certificates) as (_, port):
        for _ in range(2):
            reader = await half(port, b"GET / HTTP/1.1\r\n\r\n")
            assert len(await asyncio.wait_for(reader.read(), 10)) < 20  # an alert at most
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith("connection from 127.0.0.1:")
    assert "on SSL is closed: TLS failed (" in line


async def test_a_listener_that_is_told_to_serve_twice_accepts_once(
    certificates: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with listening(certificates) as (acceptor, port):
        accepting = acceptor._accepting
        await acceptor.start_serving()
        assert acceptor._accepting is accepting
        assert await echoes(certificates, port)
    assert not [each for each in caplog.records if each.levelname == "ERROR"]
