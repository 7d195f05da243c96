"""A query that is to stop gets no new records: a file says so, by a name that every process of the pipeline inherits.

Spark can only break off a batch. With nothing new to read, a query comes to rest by itself after the batch at hand.
"""

from __future__ import annotations

import os

DRAIN_FILE = "BARNABAS_PIPELINE_STOP_FILE"


def is_draining() -> bool:
    path = os.environ.get(DRAIN_FILE)
    return path is not None and os.access(path, os.F_OK)
