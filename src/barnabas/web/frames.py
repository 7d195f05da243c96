"""WebSocket as bytes (RFC 6455): the answer to a handshake, and frames in both directions. No I/O.

A server reads masked frames and writes plain ones. Parts of a message are put together; a message that grows beyond
its bound, a frame that is not masked and an opcode that does not exist are told as `WrongFrame` with a close code.
"""

from __future__ import annotations

import base64
import hashlib
import struct
from dataclasses import dataclass

CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0x0, 0x1, 0x2, 0x8, 0x9, 0xA
NORMAL, GOING_AWAY, PROTOCOL_ERROR, BAD_DATA, TOO_BIG, INTERNAL_ERROR = 1000, 1001, 1002, 1007, 1009, 1011
MESSAGE_BYTES_MAX = 1024 * 1024
CONTROL_BYTES_MAX = 125
_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


class WrongFrame(Exception):
    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code


@dataclass(frozen=True, slots=True)
class Message:
    opcode: int
    data: bytes


def accept_key(key: bytes) -> bytes:
    return base64.b64encode(hashlib.sha1(key + _GUID, usedforsecurity=False).digest())


def frame(opcode: int, data: bytes) -> bytes:
    size = len(data)
    if size < 126:
        head = struct.pack(">BB", 0x80 | opcode, size)
    elif size < 65536:
        head = struct.pack(">BBH", 0x80 | opcode, 126, size)
    else:
        head = struct.pack(">BBQ", 0x80 | opcode, 127, size)
    return head + data


def close_frame(code: int, reason: str = "") -> bytes:
    """A reason that is too long is cut."""
    text = reason.encode()
    if len(text) > CONTROL_BYTES_MAX - 2:
        text = text[: CONTROL_BYTES_MAX - 5].decode(errors="ignore").encode() + b"..."
    return frame(CLOSE, struct.pack(">H", code) + text)


class FrameReader:
    def __init__(self, bytes_max: int = MESSAGE_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._data = bytearray()
        self._parts = bytearray()
        self._opcode: int | None = None  # of the message whose parts are coming

    def feed(self, data: bytes) -> list[Message]:
        self._data += data
        found: list[Message] = []
        while (one := self._next()) is not None:
            message = self._joined(*one)
            if message is not None:
                found.append(message)
        return found

    def _next(self) -> tuple[bool, int, bytes] | None:
        """The next whole frame: whether it ends its message, its opcode and its data."""
        data = self._data
        if len(data) < 2:
            return None
        first, second = data[0], data[1]
        if first & 0x70:
            raise WrongFrame(PROTOCOL_ERROR, "A frame uses an extension that was not agreed on.")
        if not second & 0x80:
            raise WrongFrame(PROTOCOL_ERROR, "A frame of a client must be masked.")
        size, at = second & 0x7F, 2
        if size == 126:
            size, at = int.from_bytes(data[2:4], "big"), 4
        elif size == 127:
            size, at = int.from_bytes(data[2:10], "big"), 10
        if len(data) < at:
            return None
        if size > self._bytes_max:
            raise WrongFrame(TOO_BIG, f"A message is larger than {self._bytes_max} bytes.")
        if len(data) < at + 4 + size:
            return None
        mask, body = data[at : at + 4], data[at + 4 : at + 4 + size]
        del data[: at + 4 + size]
        key = int.from_bytes((mask * (size // 4 + 1))[:size], "big")
        return bool(first & 0x80), first & 0x0F, (int.from_bytes(body, "big") ^ key).to_bytes(size, "big")

    def _joined(self, final: bool, opcode: int, data: bytes) -> Message | None:
        if opcode in (CLOSE, PING, PONG):
            if not final or len(data) > CONTROL_BYTES_MAX:
                raise WrongFrame(PROTOCOL_ERROR, "A control frame must be whole and short.")
            return Message(opcode, data)
        if opcode not in (CONTINUATION, TEXT, BINARY):
            raise WrongFrame(PROTOCOL_ERROR, f"Opcode {opcode} does not exist.")
        if (opcode == CONTINUATION) != (self._opcode is not None):
            raise WrongFrame(PROTOCOL_ERROR, "A part of a message does not follow its beginning.")
        if opcode != CONTINUATION:
            self._opcode = opcode
        if len(self._parts) + len(data) > self._bytes_max:
            raise WrongFrame(TOO_BIG, f"A message is larger than {self._bytes_max} bytes.")
        self._parts += data
        if not final:
            return None
        assert self._opcode is not None
        whole = Message(self._opcode, bytes(self._parts))
        self._parts.clear()
        self._opcode = None
        return whole
