"""Whether a topic or a broker that is not there is waited for.

A program of the user's own gets the error. `barnabas pipeline run` waits in its driver, where a new start would cost
seconds of Spark's, and says so.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from barnabas.client.errors import ClientError

Found = TypeVar("Found")

# Returns when it is time to look again; raises when there is no use in it.
wait: Callable[[ClientError], None] | None = None


def until_there(look: Callable[[], Found]) -> Found:
    while True:
        try:
            return look()
        except ClientError as error:
            if wait is None:
                raise
            wait(error)
