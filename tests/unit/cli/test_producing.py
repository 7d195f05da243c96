import io

from barnabas.cli.records.producing import CHUNK_BYTES, lines


class Trickle(io.BytesIO):
    """A few bytes at a time, as a pipe gives them."""

    def read1(self, size: int | None = -1) -> bytes:
        return self.read(3)


def read(data: bytes, longest: int = 1000, stream: type[io.BytesIO] = io.BytesIO) -> tuple[list[bytes], list[int]]:
    too_long: list[int] = []
    return [line for some in lines(stream(data), longest, too_long.append) for line in some], too_long


def test_lines_come_without_their_ends_and_the_last_needs_none() -> None:
    for stream in (io.BytesIO, Trickle):
        assert read(b"a\n\nb\r\nlast", stream=stream) == ([b"a", b"", b"b", b"last"], [])
        assert read(b"a\n", stream=stream) == ([b"a"], [])
        assert read(b"", stream=stream) == ([], [])


def test_a_line_without_end_is_not_kept_and_the_next_is_found() -> None:
    endless = b"x" * (5 * CHUNK_BYTES)
    assert read(b"a\n" + endless + b"\nb\n") == ([b"a", b"b"], [2])
    assert read(b"a\nb\n" + endless) == ([b"a", b"b"], [3])
    assert read(b"x" * 100 + b"\nb\n" + b"y" * 50 + b"\nc", 20, Trickle) == ([b"b", b"c"], [1, 3])
