"""The session of a pipeline: small enough for several of them on one machine (docs/pipelines.md has the figures)."""

from __future__ import annotations

import os

from barnabas.pipelines.running.launch import Launch
from barnabas.pipelines.spark.startup.jvm import JAVA_OPTIONS

# What a pipeline of a few queries needs. Spark takes no heap below 450 MB; its default is twice this.
HEAP = "512m"
HEAP_AT_START = "-Xms128m"

# Its JVM has a hundred threads: not a pool of memory for each eight of them.
MALLOC_ARENAS = "2"


def session_settings(launch: Launch) -> dict[str, str]:
    settings = dict(launch.conf)
    if (launch.master or "local").startswith("local"):
        os.environ.setdefault("MALLOC_ARENA_MAX", MALLOC_ARENAS)
        settings.setdefault("spark.driver.memory", HEAP)
        settings[JAVA_OPTIONS] = f"{HEAP_AT_START} {settings.get(JAVA_OPTIONS, '')}".strip()
    return {"spark.log.level": "WARN"} | settings
