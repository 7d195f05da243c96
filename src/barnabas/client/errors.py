"""What can go wrong between a client and a cluster. Every error's text is one sentence that a user can read.

ClientError
├── InvalidSetting           a property that makes no sense; its name is in `name`
├── BrokerUnreachable        nobody answers at the addresses that were tried
│   └── ConnectionLost       somebody did, and went away: what was asked may have been done
├── AuthenticationFailed     the broker does not believe who we are, or we do not believe it
├── UnsupportedByBroker      the cluster does not know what is asked, or not in a version we speak
├── TimedOut                 the time given is over
├── TransactionFailed        what was written cannot be committed any more: abort it
├── UnreadableAnswer         bytes came back that are not the answer
└── Refused                  the broker's answer is an error; its code is in `code`
    ├── PartitionRefused     a partition cannot be read; which one is in `topic` and `partition`
    └── OffsetOutOfRange     the offset lies before the log's start or behind its end
"""

from __future__ import annotations

from barnabas.wire.errors import ErrorCode


class ClientError(Exception):
    """Root of them all."""


class InvalidSetting(ClientError):
    def __init__(self, name: str, problem: str) -> None:
        super().__init__(f"{name} {problem}")
        self.name = name


class BrokerUnreachable(ClientError):
    pass


class ConnectionRefused(BrokerUnreachable):
    """Nobody listens at its address, as the machine there says: the process is gone, or has not opened its port yet."""


class ConnectionLost(BrokerUnreachable):
    pass


class AuthenticationFailed(ClientError):
    pass


class UnsupportedByBroker(ClientError):
    pass


class TimedOut(ClientError):
    pass


class TransactionFailed(ClientError):
    pass


class UnreadableAnswer(ClientError):
    pass


class Refused(ClientError):
    def __init__(self, code: int, message: str | None = None) -> None:
        self.code = known_code(code)
        self.message = message or self.code.name
        name = self.code.name
        super().__init__(f"{message} ({name})" if message and name not in message else self.message)


class PartitionRefused(Refused):
    def __init__(self, partition: tuple[str, int], code: int) -> None:
        self.topic, self.partition = partition
        super().__init__(code, f"{self.topic}-{self.partition} cannot be read")


class OffsetOutOfRange(Refused):
    def __init__(self, topic: str, partition: int, offset: int, log_start_offset: int, log_end_offset: int) -> None:
        super().__init__(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"Offset {offset} of {topic}-{partition} is not there: its log reaches from {log_start_offset} to "
            f"{log_end_offset}",
        )
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.log_start_offset = log_start_offset
        self.log_end_offset = log_end_offset


def known_code(code: int) -> ErrorCode:
    """A code of a newer broker counts as an error that nobody can name."""
    try:
        return ErrorCode(code)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR
