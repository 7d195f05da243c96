"""Relays between nodes: what is cut is silent and stays open, and goes on when it heals."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from barnabas.testing import links as links_module
from barnabas.testing.links import Links

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="relays ask the kernel who has connected")
CLIENT, SERVER = 1, 2
QUIET_S = 0.2
LIMIT_S = 20.0


class Echo:
    """Answers every byte, and remembers what it heard."""

    def __init__(self) -> None:
        self.heard = b""
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with connection:
            while data := connection.recv(1 << 16):
                self.heard += data
                connection.sendall(data)

    def close(self) -> None:
        self._listener.close()


@pytest.fixture
def echo() -> Iterator[Echo]:
    server = Echo()
    yield server
    server.close()


@pytest.fixture
def links(echo: Echo) -> Iterator[Links]:
    """This process is the node that connects."""
    made = Links(lambda: {CLIENT: os.getpid()})
    yield made
    made.close()


@pytest.fixture
def port(links: Links, echo: Echo) -> int:
    return links.add(SERVER, echo.port)


def connect(port: int) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port), LIMIT_S)
    connection.settimeout(LIMIT_S)
    return connection


def is_silent(connection: socket.socket) -> bool:
    connection.settimeout(QUIET_S)
    try:
        connection.recv(1)
    except TimeoutError:
        return True
    finally:
        connection.settimeout(LIMIT_S)
    return False


def test_what_is_sent_into_a_cut_arrives_when_it_heals(links: Links, port: int, echo: Echo) -> None:
    with connect(port) as connection:
        connection.sendall(b"a")
        assert connection.recv(1) == b"a"
        links.cut(CLIENT, SERVER)
        assert links.cuts == {(CLIENT, SERVER)}
        connection.sendall(b"b")
        assert is_silent(connection)
        assert echo.heard == b"a"
        links.heal(CLIENT, SERVER)
        assert connection.recv(1) == b"b"
        assert not links.cuts


def test_a_cut_in_one_direction_lets_requests_in_and_no_answer_out(links: Links, port: int, echo: Echo) -> None:
    with connect(port) as connection:
        connection.sendall(b"a")
        assert connection.recv(1) == b"a"
        links.cut(SERVER, CLIENT)
        connection.sendall(b"b")
        assert is_silent(connection)
        assert echo.heard == b"ab"
        links.heal(SERVER, CLIENT)
        assert connection.recv(1) == b"b"


@pytest.mark.parametrize("cut", [(CLIENT, SERVER), (SERVER, CLIENT)])
def test_a_connection_that_is_opened_into_a_cut_is_silent_in_both_directions(
    links: Links, port: int, echo: Echo, cut: tuple[int, int]
) -> None:
    links.cut(*cut)
    with connect(port) as connection:
        connection.sendall(b"a")
        assert is_silent(connection)
        assert echo.heard == b""
        links.heal(*cut)
        assert connection.recv(1) == b"a"


def test_other_processes_are_never_cut_off(links: Links, port: int) -> None:
    links.cut(CLIENT, SERVER)
    links.cut(SERVER, CLIENT)
    ask = (
        "import socket, sys; c = socket.create_connection(('127.0.0.1', int(sys.argv[1])), 20);"
        "c.sendall(b'a'); print(c.recv(1).decode())"
    )
    said = subprocess.run([sys.executable, "-c", ask, str(port)], capture_output=True, text=True, timeout=60)
    assert said.stdout.strip() == "a", said.stderr


def test_more_than_the_buffers_hold_goes_through(port: int, echo: Echo) -> None:
    data = os.urandom(8 << 20)
    with connect(port) as connection:
        writer = threading.Thread(target=connection.sendall, args=(data,))
        writer.start()
        found = bytearray()
        while len(found) < len(data):
            found += connection.recv(1 << 16)
        writer.join()
    assert found == data
    assert echo.heard == data


def test_the_end_of_a_connection_goes_through(links: Links, port: int, echo: Echo) -> None:
    with connect(port) as connection:
        connection.sendall(b"a")
        assert connection.recv(1) == b"a"
        connection.shutdown(socket.SHUT_WR)
        assert connection.recv(1) == b""


def test_nobody_behind_a_relay_is_an_end_at_once(links: Links) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = links.add(SERVER, unused.getsockname()[1])
        with connect(port) as connection:
            try:
                end = connection.recv(1)
            except ConnectionResetError:
                end = b""
            assert end == b""


def test_the_kernel_tells_whose_a_connection_is_without_the_table_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        accepted, _ = server.accept()
        ports = client.getsockname()[1], server.getsockname()[1]
        with accepted:
            found = links_module._inode_in_table
            assert found(*ports) == os.fstat(client.fileno()).st_ino
            monkeypatch.setattr(links_module, "_inode_in_table", lambda *ports: None)
            assert links_module._inode(*ports) == os.fstat(client.fileno()).st_ino
            assert links_module._inode(*reversed(ports)) == os.fstat(accepted.fileno()).st_ino
    assert links_module._inode(*ports) is None
