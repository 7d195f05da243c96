"""The SQL server as a process of its own, and what its clients ask it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, Self

START_WITHIN_S = 120


class SqlServer:
    """`barnabas sql start` on a free port. `kill` is SIGKILL, with Spark's processes; `stop` a clean end."""

    def __init__(self, bootstrap_servers: str, directory: Path, **settings: str) -> None:
        self.directory = directory
        self.settings = {
            "bootstrap.servers": bootstrap_servers,
            "listeners": "http://127.0.0.1:0",
            "ksql.state.dir": str(directory / "state"),
            "spark.master": "local[2]",
        } | {name.replace("_", "."): value for name, value in settings.items()}
        self.port = 0
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> Self:
        reading, writing = os.pipe()
        words = [sys.executable, "-m", "barnabas", "sql", "start", "--ready-fd", str(writing), "--stop-with-parent"]
        for name, value in self.settings.items():
            words += ["--override", f"{name}={value}"]
        with (self.directory / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                words, stdin=subprocess.PIPE, stdout=log, stderr=log, pass_fds=[writing], start_new_session=True
            )
        os.close(writing)
        with os.fdopen(reading) as ready:
            line = ready.readline()
        assert line, f"the server did not start:\n{self.log()}"
        self.port = json.loads(line)["port"]
        return self

    def log(self) -> str:
        return (self.directory / "server.log").read_text()[-4000:]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def stop(self) -> None:
        if self._process is not None:
            assert self._process.stdin is not None
            self._process.stdin.close()
            self._process.wait(120)
            self._process = None

    def kill(self) -> None:
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(60)
            assert self._process.stdin is not None
            self._process.stdin.close()
            self._process = None

    def ask(self, path: str, body: Any = None, accept: str = "application/vnd.ksql.v1+json") -> tuple[int, str]:
        data = None if body is None else json.dumps(body).encode()
        headers = {"content-type": "application/vnd.ksql.v1+json", "accept": accept}
        request = urllib.request.Request(self.url + path, data=data, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def run(self, statements: str, **properties: str) -> list[dict[str, Any]]:
        given = {name.replace("_", "."): value for name, value in properties.items()}
        status, text = self.ask("/ksql", {"ksql": statements, "streamsProperties": given})
        assert status == 200, text
        found: list[dict[str, Any]] = json.loads(text)
        return found

    def rows(self, query: str, **properties: str) -> list[list[Any]]:
        """The rows of a query that ends."""
        given = {name.replace("_", "."): value for name, value in properties.items()}
        status, text = self.ask(
            "/query-stream", {"sql": query, "properties": given}, "application/vnd.ksqlapi.delimited.v1"
        )
        assert status == 200, text
        return [json.loads(line) for line in text.splitlines()[1:]]
