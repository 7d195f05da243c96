"""A port of 127.0.0.1 that stays ours while nobody listens on it: between a kill and the restart, say.

On Linux a socket that is bound and does not listen keeps everybody else away and lets a listener in that, like a
broker's, has SO_REUSEADDR. Without it a client that tries to reconnect may be given the very port as its own. On other
systems only the number is remembered.
"""

from __future__ import annotations

import socket
import sys

HOST = "127.0.0.1"


class ReservedPort:
    def __init__(self) -> None:
        self._placeholder = socket.socket()
        self._placeholder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._placeholder.bind((HOST, 0))
        self.number = int(self._placeholder.getsockname()[1])
        if sys.platform != "linux":
            self._placeholder.close()

    def release(self) -> None:
        self._placeholder.close()
