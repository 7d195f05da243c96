"""An HTTP service in a process of its own, on a free port."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Self

from barnabas.testing.process import NodeProcess
from barnabas.testing.reserved_port import HOST


class ServiceProcess:
    name: ClassVar[str]  # of the command that starts it

    def __init__(self, config: Mapping[str, object], timeout_s: float) -> None:
        self.port = 0
        self._config = dict(config)
        self._timeout_s = timeout_s
        self._directory = Path(tempfile.mkdtemp(prefix=f"barnabas-{self.name}-"))
        self._process: NodeProcess | None = None

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def log(self) -> str:
        return (self._directory / f"{self.name}.log").read_text()

    def start(self) -> None:
        config = {"listeners": f"http://{HOST}:{self.port}"} | self._config
        arguments = [word for key, value in config.items() for word in ("--override", f"{key}={value}")]
        path = self._directory / f"{self.name}.log"
        self._process = NodeProcess(arguments, path, self._timeout_s, program=(self.name, "start"))
        self.port = self._process.ready["port"]

    def stop(self) -> None:
        if self._process is not None:
            self._process.stop(self._timeout_s)
            self._process = None

    def kill(self) -> None:
        """At once, as a crash would."""
        if self._process is not None:
            self._process.kill()
            self._process = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()
        shutil.rmtree(self._directory, ignore_errors=True)
