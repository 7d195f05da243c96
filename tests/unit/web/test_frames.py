"""Frames of WebSockets against the examples of RFC 6455, and frames that no client may send."""

from __future__ import annotations

import os

import pytest

from barnabas.web import frames
from barnabas.web.frames import FrameReader, Message, WrongFrame


def masked(opcode: int, data: bytes, *, final: bool = True, mask: bytes = b"\x37\xfa\x21\x3d") -> bytes:
    plain = bytearray(frames.frame(opcode, data))
    head = len(plain) - len(data)
    if not final:
        plain[0] &= 0x7F
    plain[1] |= 0x80
    body = bytes(one ^ mask[at % 4] for at, one in enumerate(data))
    return bytes(plain[:head]) + mask + body


def test_the_examples_of_the_standard() -> None:
    assert frames.accept_key(b"dGhlIHNhbXBsZSBub25jZQ==") == b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
    assert frames.frame(frames.TEXT, b"Hello") == bytes.fromhex("810548656c6c6f")
    assert FrameReader().feed(bytes.fromhex("818537fa213d7f9f4d5158")) == [Message(frames.TEXT, b"Hello")]
    assert frames.frame(frames.BINARY, bytes(256))[:4] == bytes.fromhex("827e0100")
    assert frames.frame(frames.BINARY, bytes(65536))[:10] == bytes.fromhex("827f0000000000010000")


def test_messages_come_whole_whatever_pieces_the_network_makes() -> None:
    long = os.urandom(70_000)
    sent = (
        masked(frames.TEXT, b"Hel", final=False)
        + masked(frames.PING, b"?")
        + masked(frames.CONTINUATION, b"lo")
        + masked(frames.BINARY, long)
        + masked(frames.TEXT, b"")
    )
    reader = FrameReader()
    found = [one for at in range(0, len(sent), 997) for one in reader.feed(sent[at : at + 997])]
    assert found == [
        Message(frames.PING, b"?"),
        Message(frames.TEXT, b"Hello"),
        Message(frames.BINARY, long),
        Message(frames.TEXT, b""),
    ]


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (frames.frame(frames.TEXT, b"not masked"), 1002),
        (masked(frames.CONTINUATION, b"of nothing"), 1002),
        (masked(frames.TEXT, b"a", final=False) + masked(frames.TEXT, b"b"), 1002),
        (masked(frames.PING, bytes(126)), 1002),
        (masked(3, b"no such opcode"), 1002),
        (b"\xc1\x80\0\0\0\0", 1002),
        (b"\x81\xff" + (2**62).to_bytes(8, "big"), 1009),
    ],
)
def test_a_wrong_frame_is_refused_with_a_code(data: bytes, code: int) -> None:
    with pytest.raises(WrongFrame) as refused:
        FrameReader().feed(data)
    assert refused.value.code == code


def test_a_long_reason_is_cut_between_letters() -> None:
    closing = frames.close_frame(1000, "ä" * 100)
    assert len(closing) <= 127
    assert closing[4:].decode().endswith("ä...")
