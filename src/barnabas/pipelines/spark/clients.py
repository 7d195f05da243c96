"""Connected clusters and idle fetchers by configuration: Spark's Python workers are reused for any task."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from barnabas.client.cluster import Cluster
from barnabas.client.fetcher import Fetcher, FetchSettings
from barnabas.client.per_process import PerProcess
from barnabas.client.settings import ClientSettings


class Clients:
    """A cluster, and fetchers that no task uses at the moment. A task that reads inside another's loop has its own."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self.cluster = Cluster(ClientSettings.from_properties(properties))
        self._idle: dict[FetchSettings, list[Fetcher]] = {}

    @contextmanager
    def fetcher(self, settings: FetchSettings) -> Iterator[Fetcher]:
        idle = self._idle.setdefault(settings, [])
        taken = idle.pop() if idle else Fetcher(self.cluster, settings)
        try:
            yield taken
        finally:
            taken.assign_ranges(())  # a task that ends early leaves nothing behind that the next one would read
            idle.append(taken)

    def close(self) -> None:
        for idle in self._idle.values():
            for fetcher in idle:
                fetcher.close()
        self._idle.clear()
        self.cluster.close()


_clients: PerProcess[Clients] = PerProcess()


def clients(properties: Mapping[str, str]) -> Clients:
    return _clients.get(frozenset(properties.items()), lambda: Clients(properties))


def cluster(properties: Mapping[str, str]) -> Cluster:
    return clients(properties).cluster


def close_all() -> None:
    _clients.clear()
