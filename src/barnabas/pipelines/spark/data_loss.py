"""Records that were to be read and are gone: the query stops, or goes on without them and says so."""

from __future__ import annotations

import logging

log = logging.getLogger("barnabas.spark")

ADVICE = "set failOnDataLoss to false to go on without them"


class LostRecords(Exception):
    """failOnDataLoss is true, and records that were to be read are gone."""


class DataLoss:
    def __init__(self, fail: bool) -> None:
        self._fail = fail

    def report(self, sentence: str) -> None:
        if self._fail:
            raise LostRecords(f"{sentence}; {ADVICE}")
        log.warning("%s; going on without them, as failOnDataLoss is false", sentence)
