"""Links between the nodes of a local cluster that can be cut, in one direction or both, without any privilege.

Each listener that nodes use among themselves has a relay in front of it, and the relay's address is the one that the
others are told. A relay asks the kernel which process is at the other end of a connection, so it knows which link the
bytes travel on; who is no node of the cluster is never cut off.

A cut link behaves as a pulled cable does: bytes are held, connections stay open, and nobody is told. What was sent
into the cut arrives when it heals, unless the sender has given up by then. A connection that is opened while its link
is cut in either direction is silent in both, as the handshake of TCP needs both. The one difference: it seems to be
accepted, so its maker waits for the answer to its first request and not for the connection.

All relays run on one event loop in a thread of their own.
"""

from __future__ import annotations

import asyncio
import os
import socket
import struct
import sys
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

from barnabas.testing.reserved_port import HOST

Result = TypeVar("Result")

# A node, as the links know it; None is somebody else.
Owner = int | None
LIMIT_S = 10.0

# How the kernel is asked for a socket (sock_diag(7)).
NETLINK_SOCK_DIAG = 4
SOCK_DIAG_BY_FAMILY = 20
NLM_F_REQUEST = 1
ESTABLISHED = 1
ANY_COOKIE = (0xFFFFFFFF, 0xFFFFFFFF)
NETLINK_HEADER = struct.Struct("=IHHII")  # length, type, flags, number, port
DIAGNOSE = struct.Struct("=BBHI")  # family, protocol, what else is asked for, states
SOCKET_ID = struct.Struct("!HH16s16sIII")  # two ports, two addresses, interface, cookie
DIAGNOSED = struct.Struct(f"=4B{SOCKET_ID.size}s5I")  # family, state, timers, socket, queues, user and inode
ANSWER_BYTES_MAX = 8192


class Links:
    def __init__(self, pids: Callable[[], dict[int, int]]) -> None:
        """`pids` gives the process ids of the nodes that run or are being started, by node id."""
        if sys.platform != "linux":
            raise RuntimeError("links that can be cut need Linux: only there a relay can tell who has connected")
        self._pids = pids
        self._cuts: set[tuple[int, int]] = set()
        self._pairs: set[_Pair] = set()
        self._servers: list[asyncio.Server] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="links", daemon=True)
        self._thread.start()

    def add(self, node_id: int, port: int) -> int:
        """A relay to this port of a node; gives the relay's own port."""
        return self._call(self._listen(node_id, port))

    def cut(self, source: int, target: int) -> None:
        """From now on nothing goes from `source` to `target`."""
        self._call(self._change(lambda: self._cuts.add((source, target))))

    def heal(self, source: int, target: int) -> None:
        self._call(self._change(lambda: self._cuts.discard((source, target))))

    @property
    def cuts(self) -> set[tuple[int, int]]:
        """Source and target of each."""
        return set(self._cuts)

    def close(self) -> None:
        if self._thread.is_alive():
            self._call(self._end())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(LIMIT_S)
            self._loop.close()

    def _call(self, work: Coroutine[Any, Any, Result]) -> Result:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(LIMIT_S)

    # On the loop.

    async def _listen(self, node_id: int, port: int) -> int:
        def accept() -> _Side:
            pair = _Pair(self, node_id, port)
            return pair.near

        server = await self._loop.create_server(accept, HOST, 0)
        self._servers.append(server)
        return int(server.sockets[0].getsockname()[1])

    async def _change(self, change: Callable[[], None]) -> None:
        change()
        for pair in list(self._pairs):
            pair.follow_cuts()

    async def _end(self) -> None:
        for server in self._servers:
            server.close()
        for pair in list(self._pairs):
            pair.abort()
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()

    def opened(self, pair: _Pair, source: int, listener: int) -> None:
        pair.owner = self._owner(source, listener)
        self._pairs.add(pair)

    def closed(self, pair: _Pair) -> None:
        self._pairs.discard(pair)

    def is_cut(self, source: Owner, target: Owner) -> bool:
        return (source, target) in self._cuts

    def _owner(self, source: int, listener: int) -> Owner:
        """Whose socket has these two ports."""
        inode = _inode(source, listener)
        if inode is None:
            return None
        wanted = f"socket:[{inode}]"
        return next((node_id for node_id, pid in self._pids().items() if _has_open(pid, wanted)), None)


class _Pair:
    """A connection to a relay and the one behind it."""

    def __init__(self, links: Links, node_id: int, port: int) -> None:
        self.owner: Owner = None
        self.near = _Side(self)
        self.far = _Side(self)
        self._links = links
        self._node_id = node_id
        self._port = port
        self._connecting: asyncio.Task[None] | None = None
        self._is_over = False

    def opened(self, side: _Side, transport: asyncio.Transport) -> None:
        if side is self.far:
            if self._is_over:
                transport.abort()
            else:
                self.follow_cuts()
            return
        transport.pause_reading()
        source, listener = transport.get_extra_info("peername")[1], transport.get_extra_info("sockname")[1]
        self._links.opened(self, source, listener)
        self.follow_cuts()

    def follow_cuts(self) -> None:
        if self._is_over:
            return
        there = self._links.is_cut(self.owner, self._node_id)
        back = self._links.is_cut(self._node_id, self.owner)
        if self.far.transport is None:
            if not there and not back and self._connecting is None:
                self._connecting = asyncio.get_running_loop().create_task(self._connect())
            return
        self.near.hold(cut=there)
        self.far.hold(cut=back)

    async def _connect(self) -> None:
        try:
            await asyncio.get_running_loop().create_connection(lambda: self.far, HOST, self._port)
        except OSError:
            self.abort()

    def other(self, side: _Side) -> _Side:
        return self.far if side is self.near else self.near

    def ended(self, side: _Side) -> None:
        self._is_over = True
        self._links.closed(self)
        other = self.other(side)
        if other.transport is not None:
            other.transport.close()

    def abort(self) -> None:
        self._is_over = True
        self._links.closed(self)
        for side in (self.near, self.far):
            if side.transport is not None:
                side.transport.abort()


class _Side(asyncio.Protocol):
    """One end: what it reads goes out at the other, unless the link is cut or the other cannot keep up."""

    def __init__(self, pair: _Pair) -> None:
        self.transport: asyncio.Transport | None = None
        self._pair = pair
        self._is_cut = False
        self._is_ahead = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._pair.opened(self, transport)

    def data_received(self, data: bytes) -> None:
        other = self._pair.other(self).transport
        assert other is not None
        other.write(data)

    def hold(self, *, cut: bool | None = None, ahead: bool | None = None) -> None:
        self._is_cut = self._is_cut if cut is None else cut
        self._is_ahead = self._is_ahead if ahead is None else ahead
        assert self.transport is not None
        if self._is_cut or self._is_ahead:
            self.transport.pause_reading()
        else:
            self.transport.resume_reading()

    def pause_writing(self) -> None:
        self._pair.other(self).hold(ahead=True)

    def resume_writing(self) -> None:
        self._pair.other(self).hold(ahead=False)

    def connection_lost(self, error: Exception | None) -> None:
        self._pair.ended(self)


def _inode(local: int, remote: int) -> int | None:
    """Of the established connection with these ports, as its owner has it.

    The kernel is asked for this one connection: the table of all, /proc/net/tcp, may be of thousands, and reading it
    for each connection that is opened kept a relay from accepting any.
    """
    address = socket.inet_aton(HOST)
    wanted = SOCKET_ID.pack(local, remote, address, address, 0, *ANY_COOKIE)
    body = DIAGNOSE.pack(socket.AF_INET, socket.IPPROTO_TCP, 0, 1 << ESTABLISHED) + wanted
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_SOCK_DIAG) as kernel:
        kernel.send(
            NETLINK_HEADER.pack(NETLINK_HEADER.size + len(body), SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST, 1, 0) + body
        )
        answer = kernel.recv(ANSWER_BYTES_MAX)
    if NETLINK_HEADER.unpack_from(answer)[1] != SOCK_DIAG_BY_FAMILY:
        return _inode_in_table(local, remote)  # it has ended, or this kernel cannot be asked
    inode: int = DIAGNOSED.unpack_from(answer, NETLINK_HEADER.size)[-1]
    return inode


def _inode_in_table(local: int, remote: int) -> int | None:
    address = socket.inet_aton(HOST)[::-1].hex().upper()
    ends = (f"{address}:{local:04X}", f"{address}:{remote:04X}")
    with open("/proc/net/tcp") as table:
        for line in table:
            fields = line.split(maxsplit=10)
            if (fields[1], fields[2]) == ends and fields[3] == f"{ESTABLISHED:02}":
                return int(fields[9])
    return None


def _has_open(pid: int, wanted: str) -> bool:
    try:
        with os.scandir(f"/proc/{pid}/fd") as descriptors:
            return any(_target(each.path) == wanted for each in descriptors)
    except OSError:
        return False  # it has ended


def _target(path: str) -> str:
    try:
        return str(Path(path).readlink())
    except OSError:
        return ""
