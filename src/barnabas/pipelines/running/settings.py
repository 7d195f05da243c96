"""The session of a pipeline, by measurement (docs/pipelines.md has the figures)."""

from __future__ import annotations

from barnabas.pipelines.running.launch import Launch

QUIET = {"spark.log.level": "WARN"}


def session_settings(launch: Launch) -> dict[str, str]:
    return QUIET | dict(launch.conf)
