"""What a terminal can do: colours, a screen that is drawn anew, its size. In a pipe none of it is used."""

from __future__ import annotations

import os
import sys
from typing import TextIO

RESET = "\x1b[0m"
STYLES = {
    "bold": "\x1b[1m",
    "dim": "\x1b[2m",
    "red": "\x1b[31m",
    "green": "\x1b[32m",
    "yellow": "\x1b[33m",
    "blue": "\x1b[34m",
    "magenta": "\x1b[35m",
    "cyan": "\x1b[36m",
    "reverse": "\x1b[7m",
}


def is_colourful(stream: TextIO) -> bool:
    return stream.isatty() and os.environ.get("TERM") != "dumb" and "NO_COLOR" not in os.environ


def paint(text: str, style: str, colourful: bool) -> str:
    return f"{STYLES[style]}{text}{RESET}" if colourful and text else text


def printable(data: bytes) -> str:
    """Text without what would move the cursor; bytes that are no text with their values."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return "".join(chr(byte) if 32 <= byte < 127 else f"\\x{byte:02x}" for byte in data)
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)


def cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: max(width - 1, 0)] + "…"


class Screen:
    """A page that is drawn again and again in place; on leaving, the terminal is as it was before."""

    def __init__(self) -> None:
        self._is_terminal = sys.stdout.isatty()

    @property
    def size(self) -> tuple[int, int]:
        size = os.get_terminal_size(sys.stdout.fileno()) if self._is_terminal else os.terminal_size((120, 10_000))
        return size.columns, size.lines

    def __enter__(self) -> Screen:
        if self._is_terminal:
            sys.stdout.write("\x1b[?1049h\x1b[?25l")
            sys.stdout.flush()
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_terminal:
            sys.stdout.write("\x1b[?25h\x1b[?1049l")
            sys.stdout.flush()

    def draw(self, lines: list[str]) -> None:
        if not self._is_terminal:
            sys.stdout.write("\n".join(lines) + "\n\n")
        else:
            _, height = self.size
            page = "\x1b[K\r\n".join(lines[: height - 1])
            sys.stdout.write(f"\x1b[H{page}\x1b[K\x1b[J")
        sys.stdout.flush()


def wait_for_quit(seconds: float) -> bool:
    """Waits so long; true if `q` was pressed meanwhile. Ctrl-C is a KeyboardInterrupt as ever."""
    import select
    import time

    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        time.sleep(seconds)
        return False
    import termios
    import tty

    before = termios.tcgetattr(sys.stdin)
    try:
        tty.setcbreak(sys.stdin)
        ready, _, _ = select.select([sys.stdin], [], [], seconds)
        return bool(ready) and os.read(sys.stdin.fileno(), 1) in (b"q", b"Q", b"\x04")
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)
