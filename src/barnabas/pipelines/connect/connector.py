"""What a connector is in Python. One class is the connector and its task.

    class Weather(SourceConnector):
        definition = Definition([Setting("city", doc="Which city."), Setting("topic", doc="Where to.")])

        def poll(self) -> list[Record]:
            at = (self.offset({"city": self.values["city"]}) or {}).get("at", 0)
            return [Record(topic=self.values["topic"], value=reading, source_partition={"city": ...},
                           source_offset={"at": reading["at"]}) for reading in ask_service(at)]

Objects live for one turn: a turn opens the connector, polls or puts, and closes it. What has to survive is in the
source offsets of records, or in the target. Spark runs turns in any of its workers.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from barnabas.pipelines.connect.config import Definition
from barnabas.pipelines.connect.data.columns import SinkColumns, SourceColumn
from barnabas.pipelines.connect.data.record import Record
from barnabas.pipelines.connect.data.schema import Schema
from barnabas.pipelines.connect.errors import ConnectError

TopicPartition = tuple[str, int]
Settings = Mapping[str, str]


class BadRecords(ConnectError):
    """Raised by a sink's put, when all but these were taken: `errors.tolerance` decides about them."""

    def __init__(self, records: list[tuple[Record, Exception]]) -> None:
        super().__init__(f"{len(records)} records cannot be written: {records[0][1]}")
        self.records = records


def token_of(offset: int, metadata: str) -> tuple[str, str]:
    """The token of a group's offset, and what a turn has announced beside it. An offset that was set by hand has
    neither, and is its own token."""
    token, _, words = metadata.partition("/")
    return (token, words) if metadata else (f"offset {offset}", "")


def offset_key(partition: Mapping[str, Any]) -> str:
    return json.dumps(partition, sort_keys=True, separators=(",", ":"))


class Connector:
    definition: ClassVar[Definition] = Definition()
    doc: ClassVar[str] = ""

    def __init__(self, settings: Settings, *, name: str = "", task: int = 0) -> None:
        self.given = dict(settings)
        self.name, self.task = name, task
        self.values = self.definition.parse(settings)
        self.log = logging.getLogger(f"barnabas.connect.{name}")
        self.notes: list[str] = []  # what the worker's log is to tell of this turn
        self.configure()

    def configure(self) -> None:
        """Checks settings together; raises ConfigError. It is called before anything is opened."""

    @classmethod
    def task_settings(cls, settings: Settings, tasks_max: int) -> list[dict[str, str]]:
        """The settings of each task. It may look at the source, and runs in the worker."""
        return [dict(settings)]

    def open(self) -> None:
        """Connects."""

    def close(self) -> None:
        """Releases what `open` has taken; it is called after failures too."""


class SourceConnector(Connector):
    """`offsets` holds what was committed, by source partition."""

    idle_ms: ClassVar[int] = 500  # until an empty source is polled again
    more: bool = True  # False: a turn ends only when a poll gives nothing, because it cannot go on in the middle
    unfinished: bool = False  # after a poll that gave nothing: the next turn follows at once, without a look for news
    transaction_timeout_ms: int = 60_000

    def start(self, offsets: Mapping[str, dict[str, Any]]) -> None:
        self.offsets = dict(offsets)
        self.open()

    def offset(self, partition: Mapping[str, Any]) -> dict[str, Any] | None:
        return self.offsets.get(offset_key(partition))

    def poll(self) -> Sequence[Record]:
        """The next records, or none. It returns soon: within a second or so, and with a bounded number.

        A record whose topic is empty only carries an offset.
        """
        raise NotImplementedError

    column_schema: ClassVar[Schema | None] = None  # of values that `poll_column` can give

    def poll_column(self) -> SourceColumn | None:
        """As `poll`, many values at once. It is called instead where no record is asked for by itself: the connector
        has no transformations, and the converter takes columns."""
        raise NotImplementedError

    def committed(self, offsets: Mapping[str, dict[str, Any]]) -> None:
        """The records with these offsets are in Kafka for good."""

    def has_news(self, offsets: Mapping[str, dict[str, Any]]) -> bool:
        """A cheap look from the driver, without `open`: False keeps Spark from running a turn for nothing."""
        return True

    @property
    def pause_ms(self) -> int:
        """How long to wait after a poll that gave nothing."""
        return self.idle_ms


class SinkConnector(Connector):
    def put(self, records: Sequence[Record]) -> None:
        """Takes records; what is written may wait for `flush`."""
        raise NotImplementedError

    partitions: Sequence[TopicPartition] = ()  # of this turn
    bounds: Mapping[TopicPartition, int] = {}  # after `positions`: where the turn has to end, for some partitions
    takes_columns: bool = False  # after `configure`: whether `put_columns` is there for its settings

    def put_columns(self, columns: SinkColumns) -> None:
        """As `put`, where no transformation asks for single records and the converter reads the values as a whole."""
        raise NotImplementedError

    fenced: bool = False  # its positions are committed under an epoch, so that a turn of a former owner commits nothing

    def announce(self, positions: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, str]:
        """What `flush` will do, in a few words for each partition. A fenced sink's group keeps them beside its token
        before `flush` is called: if the turn is lost, `positions` of the next one is given `TOKEN/WORDS`."""
        return {}

    wait_records: int = 0  # after `flush`: a turn makes no sense before so many more records are there ...
    wait_ms: int = 0  # ... or before so much time has passed, 0 for no such time

    @property
    def unfinished(self) -> bool:
        """True: the turn goes on beyond its limits, because nothing of it could be kept yet."""
        return False

    def flush(self, positions: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int] | None:
        """What was put is safe when this returns; then the positions become the group's offsets.

        A sink that holds records back, for instance for a file that is not full, gives lower positions for their
        partitions. The records behind these come again in a later turn.
        """
        return None

    def positions(self, group: Mapping[TopicPartition, tuple[int, str]]) -> Mapping[TopicPartition, int]:
        """Where to go on, if the target knows better than the group: `group` has offset and token of each partition.

        A sink that keeps positions in the same transaction as its data gives them here, and is exactly once so.
        """
        return {}

    def forget(self) -> None:
        """Offsets were changed by hand: positions in the target are void."""
