"""Ctrl-C in a program with a session: Python prints one traceback, and py4j none of its own."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import logging, os, signal
from py4j.clientserver import ClientServerConnection
from py4j.java_gateway import GatewayClient
from barnabas.pipelines.spark.startup import ending

class Connection:
    socket = None
    def send_command(self, command):
        os.kill(os.getpid(), signal.SIGINT)
        signal.sigtimedwait([], 5)
    def close(self, reset): pass

class Client(GatewayClient):
    def _get_connection(self): return Connection()
    def shutdown_gateway(self): pass

ending.watch(make_archive=False)
try:
    Client().send_command("c")
finally:
    logging.exception("the user's own")
    half_closed = ClientServerConnection.__new__(ClientServerConnection)
    half_closed.socket = half_closed.stream = None
    half_closed.is_connected = True
    half_closed.shutdown_socket(1, 2)
"""


def test_py4j_says_nothing_of_an_interrupt_and_of_what_comes_of_it() -> None:
    ran = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=False)
    assert "KeyboardInterrupt while sending command" not in ran.stderr
    assert "shutting down connection" not in ran.stderr
    assert "the user's own" in ran.stderr
    assert ran.stderr.rstrip().endswith("KeyboardInterrupt")
    assert ran.stderr.count("Traceback") == 2, ran.stderr  # the user's, and Python's
