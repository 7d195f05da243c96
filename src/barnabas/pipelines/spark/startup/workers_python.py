"""Which Python Spark starts for its workers, where nobody has said it.

By itself Spark starts `python3` of the PATH. In a program that was started by the Python of an environment that is not
activated, that is another one, without this package: it would not find `format("barnabas")`.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

EVERYWHERE = "PYSPARK_PYTHON"
DRIVER = "PYSPARK_DRIVER_PYTHON"

LAUNCHERS = "barnabas-forks-"  # how directories of launchers begin (fork_server.py)

_chosen = False
_used: str | None = None  # by the session of this program


def chosen_by_user() -> str | None:
    """A program that was started by one with a session of its own inherits the launcher of that one. Nobody has chosen
    it: its workers would print to the other program, and would be gone with it."""
    chosen = os.environ.get(EVERYWHERE)
    return None if chosen is None or Path(chosen).parent.name.startswith(LAUNCHERS) else chosen


def choose() -> None:
    """The one that runs this program. With spark-submit the submitter has chosen. A session may have been started
    before this is called: under `barnabas pipeline run` it starts beside the file."""
    global _chosen
    if _used is not None and os.environ.get(EVERYWHERE) == _used:
        return
    if "PYSPARK_GATEWAY_PORT" not in os.environ and chosen_by_user() is None:
        os.environ[EVERYWHERE] = sys.executable
        _chosen = True


def use(interpreter: str) -> None:
    """For the workers of a session that is about to start: an interpreter, or what forks them."""
    global _used
    os.environ[EVERYWHERE] = _used = interpreter


def choose_for_driver_only() -> None:
    """On a Spark of several machines, others have Python where they have it."""
    global _chosen
    if _chosen and os.environ.get(EVERYWHERE) == sys.executable:
        os.environ.setdefault(DRIVER, os.environ.pop(EVERYWHERE))
        _chosen = False
