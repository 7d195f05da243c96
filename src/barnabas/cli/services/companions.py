"""Services that run beside a node, each a process of its own: started once the node is up, stopped before it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass

STOP_WITHIN_S = 10


@dataclass(frozen=True, slots=True)
class Companion:
    name: str
    arguments: tuple[str, ...]  # of the program barnabas


def companions_of(bootstrap_servers: str) -> list[Companion]:
    """All services that there are."""
    kafka = f"kafkastore.bootstrap.servers={bootstrap_servers}"
    registry = ("registry", "start", "--override", kafka, "--override", "host.name=localhost", "--stop-with-parent")
    rest = ("rest", "start", "--override", f"bootstrap.servers={bootstrap_servers}", "--stop-with-parent")
    return [Companion("schema registry", registry), Companion("REST proxy", rest)]


class Companions:
    def __init__(self, companions: Sequence[Companion]) -> None:
        self._processes = [
            subprocess.Popen([sys.executable, "-m", "barnabas", *companion.arguments], stdin=subprocess.PIPE)
            for companion in companions
        ]

    def stop(self) -> None:
        """Blocking."""
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.close()
            try:
                process.wait(STOP_WITHIN_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
