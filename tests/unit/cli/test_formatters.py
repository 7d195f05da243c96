import io
import struct

import pytest

from barnabas.cli.errors import UsageError
from barnabas.cli.records.formatters import formatter
from barnabas.client.records import ConsumerRecord
from barnabas.wire.records.groups import OffsetCommitKey, OffsetCommitValue


def record(key: bytes | None = b"k", value: bytes | None = b"v", **more: object) -> ConsumerRecord:
    fields = {"topic": "t", "partition": 2, "offset": 7, "timestamp": 1700000000000, "timestamp_type": 0, "headers": []}
    return ConsumerRecord(**(fields | {"key": key, "value": value} | more))  # type: ignore[arg-type]


def printed(given: ConsumerRecord, name: str | None = None, /, **properties: str) -> bytes:
    out = io.BytesIO()
    formatter(name, {key.replace("_", "."): value for key, value in properties.items()})(given, out)
    return out.getvalue()


def test_the_value_stands_on_a_line() -> None:
    assert printed(record()) == b"v\n"
    assert printed(record(value=None)) == b"null\n"


def test_everything_in_kafkas_order() -> None:
    everything = dict.fromkeys(
        ("print_timestamp", "print_partition", "print_offset", "print_epoch", "print_headers", "print_key"), "true"
    )
    headers = [("a", b"1"), ("b", None)]
    assert printed(record(headers=headers), **everything) == (
        b"CreateTime:1700000000000\tPartition:2\tOffset:7\tEpoch:NOT_PRESENT\ta:1,b:null\tk\tv\n"
    )
    assert printed(record(), print_headers="true", print_value="false") == b"NO_HEADERS\n"


def test_separators_and_null_may_be_others() -> None:
    given = record(key=None, headers=[("a", b"1"), ("b", None)])
    properties = {"key_separator": "|", "headers_separator": ";", "null_literal": "NIL", "line_separator": "!"}
    assert printed(given, print_key="true", print_headers="true", **properties) == b"a:1;b:NIL|NIL|v!"


def test_the_broker_may_have_set_the_time() -> None:
    assert printed(record(timestamp_type=1), print_timestamp="true") == b"LogAppendTime:1700000000000\tv\n"
    assert printed(record(timestamp=-1), print_timestamp="true") == b"NO_TIMESTAMP\tv\n"


def test_each_part_has_its_deserializer() -> None:
    number = struct.pack(">q", 5)
    properties = {"print_key": "true", "print_headers": "true", "key_deserializer": "LongDeserializer"}
    properties |= {"value_deserializer": "IntegerDeserializer", "headers_deserializer": "ShortDeserializer"}
    given = record(number, struct.pack(">i", 6), headers=[("h", struct.pack(">h", 7))])
    assert printed(given, **properties) == b"h:7\t5\t6\n"


@pytest.mark.parametrize(
    "name",
    ["org.apache.kafka.tools.consumer.OffsetsMessageFormatter", "kafka.x.GroupMetadataManager$OffsetsMessageFormatter"],
)
def test_committed_offsets_are_told_as_json(name: str) -> None:
    key = struct.pack(">h", 1) + OffsetCommitKey(group="g", topic="t", partition=0).encode(0)
    value = struct.pack(">h", 3) + OffsetCommitValue(offset=5, leader_epoch=1, commit_timestamp=9).encode(3)
    assert printed(record(key, value), name) == (
        b'{"key":{"type":1,"data":{"group":"g","topic":"t","partition":0}},"value":{"version":3,"data":'
        b'{"offset":5,"leaderEpoch":1,"metadata":"","commitTimestamp":9}}}\n'
    )
    assert printed(record(key, None), name).endswith(b'"value":null}\n')
    assert printed(record(struct.pack(">h", 2) + b"\x00\x00", b""), name) == b""


def test_an_unknown_formatter_is_told_with_the_known_ones() -> None:
    with pytest.raises(UsageError, match=r"nope\.Formatter.*OffsetsMessageFormatter"):
        formatter("nope.Formatter", {})
