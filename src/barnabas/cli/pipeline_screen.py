"""What a pipeline shows while it runs: a table below what its file prints, or plain lines where there is no terminal.

The lines go to stderr, so that stdout has what the file prints, and nothing else.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

from barnabas.cli.terminal import is_colourful

if TYPE_CHECKING:
    from rich.live import Live

    from barnabas.pipelines.running.status import QueryStatus, Status

HEADER = ("QUERY", "BATCH", "ROWS", "ROWS/S", "BATCH MS", "LAG", "NOW")


class Lines:
    """Plain lines: what happens as it does, progress now and then."""

    def __init__(self, name: str, interval_s: float) -> None:
        self._name = name
        self._interval_s = interval_s
        self._shown_at = time.monotonic()
        self._without_batch: set[str] = set()

    def __enter__(self) -> Lines:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def show(self, status: Status) -> None:
        if status.state != "running" or time.monotonic() - self._shown_at < self._interval_s:
            return
        self._shown_at = time.monotonic()
        for query in status.queries:
            self._show_query(query)

    def _show_query(self, query: QueryStatus) -> None:
        if query.batch is None:  # told once: there is nothing to add to it until there is a batch
            if query.name not in self._without_batch:
                self._without_batch.add(query.name)
                self.tell(f"{query.name}: no batch yet; {query.message}")
            return
        _, batch, rows, rate, spent, lag, now = query_cells(query)
        self.tell(f"{query.name}: batch {batch}, {rows} rows, {rate}/s, {spent} ms, lag {lag}; {now}")

    def tell(self, sentence: str) -> None:
        print(f"{self._name}: {sentence}", file=sys.stderr, flush=True)

    def printed(self, output: bytes) -> None:
        sys.stdout.buffer.write(output)
        sys.stdout.buffer.flush()

    def detail(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)


class Table(Lines):
    """In a terminal."""

    def __init__(self, name: str, interval_s: float) -> None:
        super().__init__(name, interval_s)
        self._live: Live | None = None
        self._status: Status | None = None
        self._unfinished = b""

    def __enter__(self) -> Table:
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            if self._unfinished:
                self.printed(b"\n")
            self._live.stop()
            self._live = None

    def show(self, status: Status) -> None:
        from rich.live import Live

        self._status = status
        if self._live is None:  # here, while the driver is starting: it costs a moment
            self._live = Live(get_renderable=self._drawn, refresh_per_second=2, transient=False)
            self._live.start()
        else:
            self._live.refresh()

    def tell(self, sentence: str) -> None:
        if self._live is None:
            super().tell(sentence)
        else:
            self._live.console.print(f"{self._name}: {sentence}", markup=False, highlight=False)

    def printed(self, output: bytes) -> None:
        if self._live is None:
            super().printed(output)
            return
        *lines, self._unfinished = (self._unfinished + output).split(b"\n")
        for line in lines:
            self._live.console.print(line.decode(errors="replace"), markup=False, highlight=False, soft_wrap=True)

    def _drawn(self) -> Any:
        from rich.console import Group
        from rich.table import Table as RichTable
        from rich.text import Text

        status = self._status
        assert status is not None
        table = RichTable(box=None, pad_edge=False, header_style="reverse")
        for number, name in enumerate(HEADER):
            table.add_column(name, justify="left" if number in (0, len(HEADER) - 1) else "right", no_wrap=True)
        for query in status.queries:
            table.add_row(*query_cells(query))
        return Group(Text(headline(status), style="bold"), *([table] if status.queries else []))


def audience(name: str, interval_s: float) -> Lines:
    return Table(name, interval_s) if sys.stdout.isatty() and is_colourful(sys.stderr) else Lines(name, interval_s)


def headline(status: Status) -> str:
    now_ms = time.time_ns() // 1_000_000
    parts = [f"{status.name}  {status.state} for {duration(now_ms - status.state_since_ms)}"]
    if status.restarts:
        parts.append(f"{status.restarts} restarts")
    if status.next_start_at_ms is not None:
        parts.append(f"starts again in {max(status.next_start_at_ms - now_ms, 0) / 1000:.0f} s")
    if status.state == "running":
        parts.append("Ctrl-C stops")
    return "   ".join(parts)


def query_cells(query: QueryStatus) -> tuple[str, ...]:
    return (
        query.name,
        "-" if query.batch is None else str(query.batch),
        f"{query.rows:,}",
        f"{query.rows_per_second:,.0f}",
        "-" if query.batch_ms is None else str(query.batch_ms),
        "-" if query.lag is None else f"{query.lag:,}",
        query.message,
    )


def duration(span_ms: int) -> str:
    seconds = max(span_ms, 0) // 1000
    if seconds < 60:
        return f"{seconds} s"
    if seconds < 3600:
        return f"{seconds // 60} min {seconds % 60} s"
    if seconds < 86_400:
        return f"{seconds // 3600} h {seconds % 3600 // 60} min"
    return f"{seconds // 86_400} d {seconds % 86_400 // 3600} h"
