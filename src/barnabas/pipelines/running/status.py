"""What is known of a pipeline, by its run while it lasts and by others from `status.json`.

    starting -> running -> waiting -> starting ...      waiting: after a failure, for the next start
    starting, running, waiting -> stopping -> stopped   somebody asked for it
    starting, running -> finished                       every query came to its own end
    starting, running -> failed                         a failure that no restart heals

A state of the first kinds without a run behind it is told as `killed`.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from barnabas.pipelines.running.lock import is_running
from barnabas.pipelines.running.place import Place

LIVE = ("starting", "running", "waiting", "stopping")


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryStatus:
    name: str
    id: str = ""
    active: bool = True
    message: str = ""
    batch: int | None = None
    rows: int = 0  # read since the driver was started
    rows_per_second: float = 0.0
    batch_ms: int | None = None
    lag: int | None = None
    checkpoint: str = ""
    figures: dict[str, Any] | None = None  # of a topology: its operators and their state


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    name: str
    state: str = "starting"
    pid: int = 0
    driver_pid: int | None = None
    app: str = ""
    arguments: tuple[str, ...] = ()
    master: str = ""
    bootstrap_servers: str = ""
    started_at_ms: int = 0
    state_since_ms: int = 0
    restarts: int = 0
    next_start_at_ms: int | None = None
    failure: str | None = None
    waits_for: str | None = None  # the topic or the broker that is not there
    first_result_ms: int | None = None  # from the start of the driver to the end of the first batch
    queries: tuple[QueryStatus, ...] = field(default=())

    @property
    def is_live(self) -> bool:
        return self.state in LIVE

    @property
    def rows_per_second(self) -> float:
        return sum(query.rows_per_second for query in self.queries)

    @property
    def lag(self) -> int | None:
        known = [query.lag for query in self.queries if query.lag is not None]
        return sum(known) if known else None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, told: dict[str, Any]) -> Status:
        """Names that another version wrote are passed over."""
        known = {name: told[name] for name in (each.name for each in fields(cls)) if name in told}
        known["queries"] = tuple(query_status(query) for query in told.get("queries", ()))
        known["arguments"] = tuple(told.get("arguments", ()))
        return cls(**known)


def query_status(told: dict[str, Any]) -> QueryStatus:
    return QueryStatus(**{name: told[name] for name in (each.name for each in fields(QueryStatus)) if name in told})


def write(place: Place, status: Status) -> None:
    """Whole or not at all, so that a reader never sees half of it."""
    place.directory.mkdir(parents=True, exist_ok=True)
    written = place.status_file.with_suffix(".new")
    written.write_text(json.dumps(status.to_json()))
    written.replace(place.status_file)


def read(place: Place) -> Status | None:
    """As it is now: a run that left no word of its end was killed."""
    running = is_running(place)
    try:
        status = Status.from_json(json.loads(place.status_file.read_text()))
    except (OSError, ValueError, TypeError, KeyError):
        return Status(name=place.name, state="starting") if running else None
    if running:
        return status if status.is_live else replace(status, state="starting", queries=())
    queries = tuple(replace(query, active=False, rows_per_second=0.0) for query in status.queries)
    return replace(status, state="killed" if status.is_live else status.state, queries=queries, driver_pid=None)
