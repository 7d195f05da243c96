"""What a terminal can do: colours, a screen that is drawn anew, its size. In a pipe none of it is used."""

from __future__ import annotations

import os
import sys
import time
from typing import TextIO

BAR_WIDTH = 24
REDRAW_S = 0.1
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


class ProgressBar:
    """One line on stderr that is drawn again a few times a second, if stderr is a terminal and stdout is not.

    Work that prints what it does to the same terminal needs no bar. `total` is how much there is to do.
    """

    def __init__(self, total: int, unit: str) -> None:
        self._total = max(total, 1)
        self._unit = unit
        self._shown = sys.stderr.isatty() and not sys.stdout.isatty()
        self._began_at = time.monotonic()
        self._drawn_at = 0.0

    def show(self, done: int) -> None:
        now = time.monotonic()
        if not self._shown or now - self._drawn_at < REDRAW_S:
            return
        self._drawn_at = now
        sys.stderr.write(f"\r{self.line(done, now - self._began_at)}\x1b[K")
        sys.stderr.flush()

    def line(self, done: int, elapsed_s: float) -> str:
        share = min(done / self._total, 1.0)
        filled = round(share * BAR_WIDTH)
        rate = done / max(elapsed_s, 0.001)
        left_s = (self._total - done) / rate if rate else 0.0
        bar = "█" * filled + "░" * (BAR_WIDTH - filled)
        return f"{bar} {share:4.0%}  {done:,} of {self._total:,} {self._unit}, {rate:,.0f}/s, {left_s:.0f} s left"

    def end(self) -> None:
        if self._shown and self._drawn_at:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


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
