"""What one client's request does to another: the second client's longest wait for an answer meanwhile.

The second client sends a small Metadata request every few milliseconds over a connection of its own. Both speak to any
server of the protocol, so that ours and Apache Kafka are measured alike.

On a machine that has other work to do, a wait says little about the server. Of a process whose main thread serves
everybody, as our node's event loop does, the processor time that this thread spends while the second client waits is
told as well: on an idle machine the client would wait that long.
"""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Sequence
from typing import NamedTuple, Self

from barnabas.client.exchange import request_frame
from barnabas.wire.messages.metadata import MetadataRequest

PAUSE_S = 0.002
ANSWER_S = 180.0
# What a connection's end or an answer leaves behind (objects to free, a session to drop) is measured too.
AFTERWARDS_S = 0.05
RECEIVE_BYTES = 1 << 20


class Disturbance(NamedTuple):
    """What the second client saw while a request was served, and what became of the request."""

    longest_wait_ms: float
    # Processor time of the server's main thread during a wait, at most; 0 if no process was named.
    longest_busy_ms: float
    took_ms: float
    # Bytes of the answers; None if the server closed the connection instead.
    answer_bytes: int | None


class SecondClient(threading.Thread):
    """Asks for next to nothing, all the time, and notes when it asked and how long it waited."""

    def __init__(self, host: str, port: int, pid: int | None = None) -> None:
        super().__init__(daemon=True)
        self._pid = pid
        self._socket = connect(host, port)
        self._frame = bytes(request_frame(MetadataRequest(topics=[]), 9, 1, "second"))
        self._enough = threading.Event()
        # When it asked, how long it waited, and how long the server was busy meanwhile.
        self.waits: list[tuple[float, float, float]] = []
        self.failure: BaseException | None = None

    def __enter__(self) -> Self:
        self._ask()
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._enough.set()
        self.join(ANSWER_S)
        self._socket.close()

    def run(self) -> None:
        try:
            while not self._enough.is_set():
                busy_s, began = self._busy_s(), time.perf_counter()
                self._ask()
                self.waits.append((began, time.perf_counter() - began, self._busy_s() - busy_s))
                time.sleep(PAUSE_S)
        except BaseException as error:
            self.failure = error

    def longest_ms(self, since: float) -> tuple[float, float]:
        """The longest wait, and the longest that the server was busy during a wait, of the questions that were
        answered from that moment on; one that is still waiting is waited for."""
        count = len(self.waits)
        limit = time.perf_counter() + ANSWER_S
        while len(self.waits) < count + 2 and self.failure is None and time.perf_counter() < limit:
            time.sleep(PAUSE_S)
        if self.failure is not None:
            raise self.failure
        counted = [(wait, busy) for began, wait, busy in self.waits if began + wait >= since]
        return max(wait for wait, _ in counted) * 1000, max(busy for _, busy in counted) * 1000

    def _busy_s(self) -> float:
        if self._pid is None:
            return 0.0
        with open(f"/proc/{self._pid}/task/{self._pid}/schedstat", "rb") as statistics:
            return int(statistics.read().split()[0]) / 1e9

    def _ask(self) -> None:
        self._socket.sendall(self._frame)
        receive_answer(self._socket)


def disturb(second: SecondClient, host: str, port: int, frames: Sequence[bytes]) -> Disturbance:
    """Sends the frames one after the other over a new connection, waiting for each one's answer."""
    began = time.perf_counter()
    answer_bytes: int | None = 0
    with connect(host, port) as hostile:
        for frame in frames:
            try:
                hostile.sendall(frame)
                size = receive_answer(hostile)
            except ConnectionError:
                answer_bytes = None
                break
            assert answer_bytes is not None
            answer_bytes += size
        took_s = time.perf_counter() - began
    time.sleep(AFTERWARDS_S)
    return Disturbance(*second.longest_ms(began), took_s * 1000, answer_bytes)


def connect(host: str, port: int) -> socket.socket:
    made = socket.create_connection((host, port), timeout=ANSWER_S)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return made


def receive_answer(client: socket.socket) -> int:
    """Reads one answer without keeping it; its size."""
    head = b""
    while len(head) < 4:
        head += _some(client, 4 - len(head))
    (size,) = struct.unpack(">i", head)
    left: int = size
    while left:
        left -= len(_some(client, min(left, RECEIVE_BYTES)))
    return int(size)


def _some(client: socket.socket, size: int) -> bytes:
    data = client.recv(size)
    if not data:
        raise ConnectionResetError("the server closed the connection")
    return data
