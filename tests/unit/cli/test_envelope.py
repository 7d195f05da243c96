import pytest

from barnabas.cli.errors import ToolFailed
from barnabas.cli.records.envelope import parse, record_line
from barnabas.client.records import ConsumerRecord

RECORD = ConsumerRecord("t", 1, 7, 1700000000000, 0, b"k", b"v", [("h", b"x"), ("n", None), ("b", b"\xff")])


def test_what_is_written_is_read_back() -> None:
    for record in (RECORD, RECORD._replace(value=None, key=b"\xfe", headers=[]), RECORD._replace(value=b"\xff\x00")):
        read = parse(record_line(record).encode(), 1)
        assert (read.key, read.value, read.headers) == (record.key, record.value, record.headers)
        assert (read.partition, read.timestamp) == (1, 1700000000000)


def test_structured_values_become_json_text() -> None:
    assert parse(b'{"value": {"a": [1, 2]}, "key": 5}', 1)[:2] == (b"5", b'{"a":[1,2]}')


def test_headers_may_be_an_object() -> None:
    assert parse(b'{"value": "v", "headers": {"a": "b"}}', 1).headers == [("a", b"b")]


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (b"hello", "Line 3 is not JSON"),
        (b"[1]", "not a JSON object"),
        (b"{}", "has no value"),
        (b'{"value": "v", "valeu": 1}', "valeu"),
        (b'{"value_base64": "%%%"}', "base64"),
        (b'{"value": "v", "headers": ["a"]}', "headers"),
        (b'{"value": "v", "partition": "x"}', "partition"),
    ],
)
def test_mistakes_are_told_with_their_line(line: bytes, told: str) -> None:
    with pytest.raises(ToolFailed, match=told):
        parse(line, 3)
