"""Streams: topologies in the shape of Kafka Streams, run by Spark. See docs/streams.md."""

from barnabas.pipelines.streams.context import RecordContext, with_context
from barnabas.pipelines.streams.driver import Output, TopologyTestDriver
from barnabas.pipelines.streams.errors import CheckpointError, RecordError, StreamsError, TopicMissing, TopologyError
from barnabas.pipelines.streams.expressions import Expression, col, lit
from barnabas.pipelines.streams.grouped import CogroupedStream, GroupedStream, GroupedTable, WindowedStream
from barnabas.pipelines.streams.processors import KeyValueStore, Processor, ProcessorContext, PunctuationType, Record
from barnabas.pipelines.streams.queries import StateStore, open_store
from barnabas.pipelines.streams.registry_serdes import avro, from_registry, json_schema, protobuf
from barnabas.pipelines.streams.run import StreamsRun
from barnabas.pipelines.streams.serdes import (
    AUTO,
    BYTES,
    DOUBLE,
    FLOAT,
    INT,
    JSON,
    LONG,
    SHORT,
    STRING,
    Serde,
    SerdeError,
    json,
)
from barnabas.pipelines.streams.streams import Stream
from barnabas.pipelines.streams.tables import GlobalTable, Table
from barnabas.pipelines.streams.topology import Topology
from barnabas.pipelines.streams.windows import (
    Windowed,
    hopping,
    session,
    session_window,
    session_windowed,
    sliding,
    time_windowed,
    tumbling,
    within,
)

__all__ = [
    "AUTO",
    "BYTES",
    "DOUBLE",
    "FLOAT",
    "INT",
    "JSON",
    "LONG",
    "SHORT",
    "STRING",
    "CheckpointError",
    "CogroupedStream",
    "Expression",
    "GlobalTable",
    "GroupedStream",
    "GroupedTable",
    "KeyValueStore",
    "Output",
    "Processor",
    "ProcessorContext",
    "PunctuationType",
    "Record",
    "RecordContext",
    "RecordError",
    "Serde",
    "SerdeError",
    "StateStore",
    "Stream",
    "StreamsError",
    "StreamsRun",
    "Table",
    "TopicMissing",
    "Topology",
    "TopologyError",
    "TopologyTestDriver",
    "Windowed",
    "WindowedStream",
    "avro",
    "col",
    "from_registry",
    "hopping",
    "json",
    "json_schema",
    "lit",
    "open_store",
    "protobuf",
    "session",
    "session_window",
    "session_windowed",
    "sliding",
    "time_windowed",
    "tumbling",
    "with_context",
    "within",
]
