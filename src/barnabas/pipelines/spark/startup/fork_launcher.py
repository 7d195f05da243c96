"""Stands where Spark expects an interpreter: asks the fork server for a process with these words, and waits for it.

Runs without `site` and with built-in modules only: it is started eighteen times, and stays.
"""

import _socket
import marshal
import os
import signal
import sys

SOL_SOCKET, SCM_RIGHTS = _socket.SOL_SOCKET, _socket.SCM_RIGHTS
HANDED_ON = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def launch(address: str, interpreter: str) -> None:
    words = sys.argv[1:]
    try:
        if words[:1] != ["-m"]:
            raise ValueError("only modules are forked")
        os.close(os.pidfd_open(os.getpid()))  # not every system can
        signal.pthread_sigmask(signal.SIG_BLOCK, HANDED_ON)  # until there is somebody to hand them on to
        worker = ask(address, words)
    except (OSError, ValueError, AttributeError):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, HANDED_ON)
        if not os.path.isdir(os.path.dirname(address)):  # the driver has ended, and nobody waits for an answer
            return
        os.execv(interpreter, [interpreter, *words])
    try:
        watch = os.pidfd_open(worker)
    except ProcessLookupError:  # it has done its work: it must not be done a second time
        return
    for number in HANDED_ON:
        signal.signal(number, lambda number, _: os.kill(worker, number))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, HANDED_ON)
    for descriptor in (0, 1, 2):
        os.close(descriptor)
    select_until_readable(watch)


def ask(address: str, words: list[str]) -> int:
    """The number of the process that does what was asked."""
    message = marshal.dumps((words, dict(os.environ), os.getcwd()))
    server = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    server.connect(address)
    rights = b"".join(number.to_bytes(4, sys.byteorder) for number in (0, 1, 2))
    server.sendmsg([len(message).to_bytes(4, "big")], [(SOL_SOCKET, SCM_RIGHTS, rights)])
    sent = 0
    while sent < len(message):
        sent += server.send(message[sent:])
    return int(server.recv(32))


def select_until_readable(descriptor: int) -> None:
    import select

    waiting = select.poll()
    waiting.register(descriptor, select.POLLIN)
    while not waiting.poll():
        pass
