"""What a command tells a user who asked for something that cannot be."""

from __future__ import annotations


class UsageError(Exception):
    """The user's mistake: one sentence, exit code 1."""


class ToolFailed(Exception):
    """What was asked for could not be done: one sentence and the tool's exit code.

    Some of Kafka's tools say it on stdout.
    """

    def __init__(self, sentence: str, exit_code: int = 1, *, on_stdout: bool = False) -> None:
        super().__init__(sentence)
        self.exit_code = exit_code
        self.on_stdout = on_stdout
