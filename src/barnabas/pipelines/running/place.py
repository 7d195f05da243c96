"""Where a pipeline keeps what outlives its run, by its name.

    <state>/plant.lock       held by the run and by its driver; never deleted
    <state>/plant/           status.json, driver.log, checkpoints/<query>/, and while it is to stop: stop, drain

The state directory is $BARNABAS_STATE, or `barnabas/pipelines` in $XDG_STATE_HOME, or in `~/.local/state`.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}")


def state_directory(given: str | None = None) -> Path:
    if chosen := given or os.environ.get("BARNABAS_STATE"):
        return Path(chosen).expanduser().absolute()
    base = os.environ.get("XDG_STATE_HOME")
    return (Path(base) if base else Path.home() / ".local" / "state") / "barnabas" / "pipelines"


def is_name(text: str) -> bool:
    return NAME.fullmatch(text) is not None and not text.endswith(".lock")


@dataclass(frozen=True, slots=True)
class Place:
    state: Path
    name: str

    @property
    def directory(self) -> Path:
        return self.state / self.name

    @property
    def lock_file(self) -> Path:
        return self.state / f"{self.name}.lock"

    @property
    def status_file(self) -> Path:
        return self.directory / "status.json"

    @property
    def log_file(self) -> Path:
        return self.directory / "driver.log"

    @property
    def stop_file(self) -> Path:
        return self.directory / "stop"

    @property
    def drain_file(self) -> Path:
        return self.directory / "drain"

    @property
    def checkpoints(self) -> Path:
        return self.directory / "checkpoints"


def places(state: Path) -> list[Place]:
    """Every pipeline that left something here."""
    found = sorted(entry.name for entry in state.iterdir()) if state.is_dir() else []
    return [Place(state, name) for name in found if is_name(name) and (state / name / "status.json").is_file()]
