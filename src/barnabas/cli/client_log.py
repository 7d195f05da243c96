"""What the client logs while it waits for brokers, as sentences on stderr: once, however often it is tried again."""

from __future__ import annotations

import logging
import sys


class Sentences(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._last = ""

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if text != self._last:
            self._last = text
            print(text, file=sys.stderr)


def listen() -> None:
    logger = logging.getLogger("barnabas.client")
    if not any(isinstance(handler, Sentences) for handler in logger.handlers):
        logger.addHandler(Sentences())
        logger.propagate = False
