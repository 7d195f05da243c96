"""How command lines are read: Kafka's habits."""

from __future__ import annotations

import pytest

from barnabas.cli.errors import UsageError
from barnabas.cli.options import HelpWanted, Parser, Positional, VersionWanted, option
from barnabas.cli.usage import usage

PARSER = Parser(
    name="things",
    summary="Does things.",
    options=(
        option("--topic", takes="topic", help="The topic."),
        option("--topics-with-overrides", help="Only those."),
        option("--partitions", takes="number", kind=int, help="How many."),
        option("--bootstrap-server", "--broker-list", takes="address", help="Where."),
        option("--config", takes="key=value", repeated=True, help="May be repeated."),
        option("--under-replicated", help="One."),
        option("--under-min-isr", help="Another."),
        option("--shift-by", takes="number", kind=int, help="May be negative."),
        option("--codec", takes="codec", optional=True, without_value="gzip", help="May stand alone."),
        option("--kind", takes="kind", choices=("small", "large"), default="small", help="Which."),
        option("--list", help="List."),
    ),
)
WITH_COMMANDS = Parser(
    name="more",
    summary="Does more.",
    options=(option("--bootstrap-server", takes="address", help="Where."),),
    commands=(
        Parser(name="describe", summary="Describe.", options=(option("--status", help="How it is."),)),
        Parser(name="remove", summary="Remove.", options=(option("--id", "-i", takes="id", kind=int, help="Which."),)),
    ),
)


@pytest.mark.parametrize("spelling", [["--topic", "t"], ["-topic", "t"], ["--topic=t"], ["-topic=t"]])
def test_an_option_has_one_dash_or_two_and_its_value_behind_a_space_or_an_equals_sign(spelling: list[str]) -> None:
    assert PARSER.parse(spelling).text("topic") == "t"


def test_a_whole_name_wins_over_a_longer_one_that_begins_with_it() -> None:
    assert PARSER.parse(["--topic", "--list"]).text("topic") == "--list"


def test_a_unique_beginning_is_enough() -> None:
    parsed = PARSER.parse(["--part", "3", "--boot", "a:1", "--under-m"])
    assert parsed.number("partitions") == 3
    assert parsed.text("bootstrap-server") == "a:1"
    assert "under-min-isr" in parsed
    assert "under-replicated" not in parsed


def test_a_beginning_of_several_is_told_with_all_of_them() -> None:
    with pytest.raises(UsageError, match="under is not a recognized option: did you mean --under-min-isr or --under-r"):
        PARSER.parse(["--under"])


def test_an_unknown_option_is_told_with_the_nearest() -> None:
    with pytest.raises(UsageError, match="partition-count is not a recognized option: did you mean --partitions"):
        PARSER.parse(["--partition-count", "3"])


def test_older_spellings_are_the_same_option() -> None:
    assert PARSER.parse(["--broker-list", "a:1"]).text("bootstrap-server") == "a:1"


def test_a_value_is_the_next_word_whatever_it_looks_like() -> None:
    assert PARSER.parse(["--shift-by", "-2"]).number("shift-by") == -2


def test_repeated_options_keep_their_order_and_single_ones_refuse_a_second_value() -> None:
    assert PARSER.parse(["--config", "a=1", "--config", "b=2"]).texts("config") == ["a=1", "b=2"]
    with pytest.raises(UsageError, match="Found multiple arguments for option topic"):
        PARSER.parse(["--topic", "a", "--topic", "b"]).text("topic")


def test_a_value_may_be_left_out_where_one_is_known() -> None:
    assert PARSER.parse(["--codec", "--list"]).text("codec") == "gzip"
    assert PARSER.parse(["--codec", "lz4"]).text("codec") == "lz4"
    assert PARSER.parse(["--list"]).text("codec") is None


def test_wrong_values_are_told_in_a_sentence() -> None:
    with pytest.raises(UsageError, match="Cannot parse argument 'x' of option partitions"):
        PARSER.parse(["--partitions", "x"]).number("partitions")
    with pytest.raises(UsageError, match="medium is not a value of --kind, which takes small, large"):
        PARSER.parse(["--kind", "medium"])
    with pytest.raises(UsageError, match="Option topic requires an argument"):
        PARSER.parse(["--topic"])


def test_a_default_is_no_option_that_was_given() -> None:
    parsed = PARSER.parse(["--list"])
    assert parsed.text("kind") == "small"
    assert "kind" not in parsed


def test_options_that_need_or_exclude_each_other_are_told_as_kafka_does() -> None:
    parsed = PARSER.parse(["--list", "--topic", "t"])
    with pytest.raises(UsageError, match=r'Option "\[list\]" can\'t be used with option "\[topic\]"'):
        parsed.refuse("list", "partitions", "topic")
    with pytest.raises(UsageError, match=r'Missing required argument "\[partitions\]"'):
        parsed.require("topic", "partitions")


def test_a_name_that_nobody_declared_is_a_mistake_of_ours() -> None:
    with pytest.raises(KeyError, match="things declares no option nothing"):
        PARSER.parse(["--list"]).text("nothing")


def test_options_of_a_tool_stand_before_or_behind_its_command() -> None:
    for words in (
        ["--bootstrap-server", "a:1", "remove", "-i", "3"],
        ["remove", "--id=3", "--bootstrap-server", "a:1"],
    ):
        parsed = WITH_COMMANDS.parse(words)
        assert (parsed.command, parsed.number("id"), parsed.text("bootstrap-server")) == ("remove", 3, "a:1")
        assert "status" not in parsed


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "too few arguments"),
        (["bogus"], "invalid choice: 'bogus' .choose from 'describe', 'remove'."),
        (["describe", "extra"], "unrecognized arguments: 'extra'"),
        (["--bogus"], "unrecognized arguments: '--bogus'"),
    ],
)
def test_a_wrong_command_is_told_as_kafka_does(words: list[str], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        WITH_COMMANDS.parse(words)


def test_help_and_version_are_answered_before_anything_else_is_looked_at() -> None:
    with pytest.raises(HelpWanted):
        PARSER.parse([])
    with pytest.raises(HelpWanted):
        PARSER.parse(["--partitions", "x", "--help"])
    with pytest.raises(HelpWanted) as wanted:
        WITH_COMMANDS.parse(["describe", "-h"])
    assert wanted.value.command is not None
    with pytest.raises(VersionWanted):
        PARSER.parse(["--version"])


def test_the_help_lists_every_option_with_its_older_spellings() -> None:
    text = usage(PARSER, program="kafka-things")
    assert "usage: kafka-things [options]" in text
    assert "--bootstrap-server <address> Where. Also spelled --broker-list." in text
    assert "Which. One of small, large. (default: small)" in text


def test_words_beside_options_are_ignored_unless_the_tool_takes_some() -> None:
    assert PARSER.parse(["--list", "extra"]).rest == ["extra"]
    needing = Parser(name="needing", summary="", positionals=(Positional(name="FILE", help="A file."),))
    with pytest.raises(UsageError, match="FILE is missing"):
        needing.parse(["--"])
