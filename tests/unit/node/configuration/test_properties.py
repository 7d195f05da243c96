"""Java's .properties format."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.node.configuration import ConfigError
from barnabas.node.configuration.properties import format_properties, parse_properties, read_properties


@pytest.mark.parametrize(
    ("text", "properties"),
    [
        ("", {}),
        ("a=b", {"a": "b"}),
        ("a:b\nc d\r\ne\tf\rg", {"a": "b", "c": "d", "e": "f", "g": ""}),
        ("  a = b  ", {"a": "b  "}),
        ("a = = b", {"a": "= b"}),
        ("a==b:c", {"a": "=b:c"}),
        ("# comment = 1\n  ! other\n\n \t\na=b", {"a": "b"}),
        ("a=b#c", {"a": "b#c"}),
        ("a=b\na=c", {"a": "c"}),
        (
            "listeners=PLAINTEXT://:9092,\\\n    CONTROLLER://:9093",
            {"listeners": "PLAINTEXT://:9092,CONTROLLER://:9093"},
        ),
        ("a=b\\\\\nc=d", {"a": "b\\", "c": "d"}),
        ("a=b\\\n# not a comment\nc=d", {"a": "b# not a comment", "c": "d"}),
        ("a=b\\\n\nc=d", {"a": "b", "c": "d"}),
        ("# a comment does not go on \\\nc=d", {"c": "d"}),
        ("a=b\\", {"a": "b"}),
        (r"a\ b\=\:c=\t\n\u0041\q\\", {"a b=:c": "\t\nAq\\"}),
        (r"smile=\ud83d\ude00", {"smile": "😀"}),
        ("log.dirs=C:\\\\data", {"log.dirs": "C:\\data"}),
    ],
)
def test_lines_are_read_as_java_reads_them(text: str, properties: dict[str, str]) -> None:
    assert parse_properties(text) == properties


@pytest.mark.parametrize("text", [r"a=\u12", r"a=\u12g4", r"\u"])
def test_half_an_escape_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="four hexadecimal digits"):
        parse_properties(text)


@given(st.dictionaries(st.text(min_size=1), st.text()))
def test_what_is_written_is_read_again(properties: dict[str, str]) -> None:
    encodable = {
        key.encode("utf-16", "replace").decode("utf-16"): value.encode("utf-16", "replace").decode("utf-16")
        for key, value in properties.items()
    }
    assert parse_properties(format_properties(encodable)) == encodable
    assert format_properties(encodable).isascii()


@given(st.text(alphabet="ab=: \t\f\\\n\r#!u0041"))
def test_no_text_breaks_the_reader(text: str) -> None:
    try:
        properties = parse_properties(text)
    except ConfigError:
        assert "\\u" in text
    else:
        assert len(properties) <= len(text) + 1


def test_a_file_may_be_utf8_or_what_java_writes(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_bytes("broker.rack=Prag-Žižkov\n".encode())
    assert read_properties(path) == {"broker.rack": "Prag-Žižkov"}
    path.write_bytes("broker.rack=Köln\n".encode("iso-8859-1"))
    assert read_properties(path) == {"broker.rack": "Köln"}


def test_a_missing_file_is_named_in_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^The configuration file .*nowhere.properties cannot be read: No such file"):
        read_properties(tmp_path / "nowhere.properties")
