import pytest

from barnabas.cli.errors import ToolFailed
from barnabas.cli.records.line_reader import LineReader


def reader(**properties: str) -> LineReader:
    return LineReader({name.replace("_", "."): value for name, value in properties.items()})


def test_a_line_is_a_value() -> None:
    assert reader().read(b"k\tv") == (None, b"k\tv", [])


def test_keys_end_at_the_first_separator() -> None:
    assert reader(parse_key="true", key_separator=":").read(b"a:b:c") == (b"a", b"b:c", [])


def test_headers_stand_before_the_key() -> None:
    read = reader(parse_key="true", parse_headers="TRUE").read
    assert read(b"h1:x,h2:y:z\tk\tv") == (b"k", b"v", [("h1", b"x"), ("h2", b"y:z")])


def test_the_marker_is_null_everywhere() -> None:
    read = reader(parse_key="true", parse_headers="true", null_marker="NULL").read
    assert read(b"h:NULL\tNULL\tNULL") == (None, None, [("h", None)])
    assert read(b"NULL\tk\tv") == (b"k", b"v", [])


def test_separators_may_be_others() -> None:
    properties = {"headers_delimiter": "|", "headers_separator": ";", "headers_key_separator": "="}
    assert reader(parse_headers="true", **properties).read(b"a=1;b=2|v") == (None, b"v", [("a", b"1"), ("b", b"2")])


def test_what_is_missing_is_told_with_the_number_of_the_line() -> None:
    lines = reader(parse_key="true", key_separator=":")
    lines.read(b"k:v")
    with pytest.raises(ToolFailed, match="No key separator found on line number 2: 'nokey'"):
        lines.read(b"nokey")
    with pytest.raises(ToolFailed, match="No headers delimiter found on line number 1"):
        reader(parse_headers="true").read(b"novalue")
    with pytest.raises(ToolFailed, match="No header key separator found in pair 'bad' on line number 1"):
        reader(parse_headers="true").read(b"bad\tv")


def test_errors_may_be_ignored() -> None:
    assert reader(parse_key="true", ignore_error="true").read(b"nokey") == (None, b"nokey", [])


def test_separators_must_be_told_apart() -> None:
    with pytest.raises(ToolFailed, match=r"headers\.delimiter and headers.separator may not be equal"):
        reader(headers_delimiter=",")
    with pytest.raises(ToolFailed, match=r"null\.marker and key.separator may not be equal"):
        reader(null_marker="\t", key_separator="\t")
