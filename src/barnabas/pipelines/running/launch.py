"""What a supervisor hands to the drivers it starts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    name: str
    app: str
    checkpoints: str  # a directory, or an address that Spark understands
    drain_file: str  # while it is there, sources give no new records
    arguments: tuple[str, ...] = ()
    master: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)
    bootstrap_servers: str = ""
    stop_timeout_s: float = 30.0
    scratch: str = ""  # a directory for what belongs to one driver only, removed after it
    report_descriptor: int = -1
    patient: bool = True  # topics and brokers that are not there are waited for
    resumed: bool = False  # queries of this file have run already: the session's troubles may heal

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def parse(cls, text: str) -> Launch:
        told = json.loads(text)
        return cls(**(told | {"arguments": tuple(told["arguments"])}))
