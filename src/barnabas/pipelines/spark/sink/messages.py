"""What tasks tell the driver of an exactly-once sink, and what a committed batch leaves behind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from pyspark.sql.datasource import WriterCommitMessage

from barnabas.pipelines.spark.sink.transactions import SinkTransaction

HASH_MASK = (1 << 64) - 1
ONWARD = " | "


class SinkError(Exception):
    """A batch that cannot be written or committed; the text is one sentence."""


class Unrepeatable(SinkError):
    """No replay of the batch could be: what is committed is not what it would write."""


class Digest(NamedTuple):
    rows: int = 0
    hash: int = 0

    def __add__(self, other: object) -> Digest:
        assert isinstance(other, Digest)
        return Digest(self.rows + other.rows, (self.hash + other.hash) & HASH_MASK)


@dataclass(frozen=True, slots=True)
class Turn:
    """Which part of which batch a task writes. A batch that belongs to no query has no number and leaves no trace."""

    prefix: str
    task: int
    batch: int | None
    run: str = ""

    @property
    def transactional_id(self) -> str:
        return f"{self.prefix}{self.task}"

    @property
    def what(self) -> str:
        return "this write" if self.batch is None else f"batch {self.batch} of {self.prefix.rstrip('.')}"


@dataclass(frozen=True, slots=True)
class Trace:
    """What a committed batch leaves in its mark, beside its number: told apart by digest and run. `onward` tells how
    far the task went on behind the batch (`own_turn`)."""

    digest: Digest
    run: str
    onward: str = ""

    def __str__(self) -> str:
        told = f"{self.digest.rows} {self.digest.hash:016x} {self.run}"
        return f"{told}{ONWARD}{self.onward}" if self.onward else told

    @classmethod
    def parse(cls, text: str) -> Trace:
        try:
            told, _, onward = text.partition(ONWARD)
            rows, digest, run = f"{told} ".split(" ", 2)
            return cls(Digest(int(rows), int(digest, 16)), run.strip(), onward)
        except ValueError:
            raise Unrepeatable(f"the anchor topic holds '{text}', which this sink has not written") from None


@dataclass(frozen=True)
class Prepared(WriterCommitMessage):
    turn: Turn
    transaction: SinkTransaction
    digest: Digest
    began_s: float
    first_of_run: bool
    former_group: bool = False  # a version before marks left a group of the id's name


@dataclass(frozen=True)
class Skipped(WriterCommitMessage):
    turn: Turn
    committed: Digest
    digest: Digest


Message = Prepared | Skipped
