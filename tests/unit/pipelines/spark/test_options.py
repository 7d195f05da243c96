from __future__ import annotations

import pytest

from barnabas.pipelines.spark.options import OptionError, Position, SourceOptions

BROKERS = {"kafka.bootstrap.servers": "here:9092"}
GIVEN = BROKERS | {"subscribe": "plant"}


def test_options_are_those_of_the_connector_and_their_names_are_case_insensitive() -> None:
    options = SourceOptions.parse(
        {
            "KAFKA.bootstrap.servers": "here:9092",
            "SUBSCRIBE": "b, a",
            "startingoffsets": '{"a":{"0":5,"1":-2}}',
            "FailOnDataLoss": "FALSE",
            "maxTriggerDelay": "2min",
            "MinPartitions": "7",
            "includeHeaders": "true",
        }
    )
    assert options.subscription.topics == ("a", "b")
    offsets = {("a", 0): 5, ("a", 1): -2}
    assert options.starting == Position("offsets", "startingOffsets", offsets)
    assert not options.fail_on_data_loss
    assert options.max_trigger_delay_ms == 120_000
    assert options.min_partitions == 7
    assert options.columns[-1] == "headers"


def test_a_stream_begins_at_the_latest_and_a_batch_at_the_earliest() -> None:
    options = SourceOptions.parse(GIVEN)
    assert options.for_stream().kind == "latest"
    assert [position.kind for position in options.for_batch()] == ["earliest", "latest"]


def test_timestamps_win_over_offsets() -> None:
    by_partition = GIVEN | {"startingOffsets": "earliest", "startingOffsetsByTimestamp": '{"plant":{"0":1000}}'}
    position = SourceOptions.parse(by_partition).starting
    assert position is not None
    assert position.kind == "timestamps"
    assert SourceOptions.parse(by_partition | {"startingTimestamp": "7"}).starting == Position(
        "timestamp", "startingTimestamp", timestamp_ms=7
    )


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"kafka.bootstrap.servers": " "}, "kafka.bootstrap.servers is missing: name the brokers"),
        ({"assign": '{"a":[0]}'}, "one of assign, subscribe, subscribePattern, not assign and subscribe together"),
        ({"subscribe": " , "}, "subscribe names no topic"),
        ({"kafka.auto.offset.reset": "earliest"}, "kafka.auto.offset.reset is not an option here: startingOffsets"),
        ({"kafka.enable.auto.commit": "true"}, "kafka.enable.auto.commit is not an option here"),
        ({"kafka.value.deserializer": "x"}, "kafka.value.deserializer is not an option here"),
        ({"kafka.interceptor.classes": "x"}, "kafka.interceptor.classes is not an option here"),
        ({"kafka.isolation.level": "all"}, "kafka.isolation.level is read_uncommitted or read_committed, not 'all'"),
        ({"startingOffsets": "begin"}, "startingOffsets is earliest, latest or offsets in JSON, not 'begin'"),
        ({"startingOffsets": '{"a":3}'}, "startingOffsets is JSON such as"),
        ({"startingOffsets": '{"a":{"0":-3}}'}, "startingOffsets has an offset below -2"),
        ({"startingOffsetsByTimestampStrategy": "x"}, "startingOffsetsByTimestampStrategy is error or latest, not 'x'"),
        ({"failOnDataLoss": "perhaps"}, "failOnDataLoss is true or false, not 'perhaps'"),
        ({"minPartitions": "0"}, "minPartitions is at least 1, not 0"),
        ({"maxOffsetsPerTrigger": "many"}, "maxOffsetsPerTrigger is a whole number, not 'many'"),
        ({"maxOffsetsPerTrigger": "1", "minOffsetsPerTrigger": "2"}, "minOffsetsPerTrigger (2) is larger than"),
        ({"maxTriggerDelay": "a while"}, "maxTriggerDelay is a time such as 500ms, 30s or 15m, not 'a while'"),
        ({"columns": "value,colour"}, "columns names 'colour', which is none of key, value"),
    ],
)
def test_a_wrong_option_gets_one_sentence(wrong: dict[str, str], sentence: str) -> None:
    with pytest.raises(OptionError) as refused:
        SourceOptions.parse(GIVEN | wrong)
    assert sentence in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("mistyped", "meant"),
    [
        ("startingOffset", "startingOffsets"),
        ("kafka.bootstrap.server", "kafka.bootstrap.servers"),
        ("maxOffsetPerTrigger", "maxOffsetsPerTrigger"),
        ("failOnDataLos", "failOnDataLoss"),
    ],
)
def test_a_mistyped_option_is_refused_with_the_nearest_name(mistyped: str, meant: str) -> None:
    with pytest.raises(OptionError, match=f"there is no option {mistyped}: is {meant} meant"):
        SourceOptions.parse({"kafka.bootstrap.servers": "h:1", "subscribe": "t", mistyped: "x"})


def test_options_that_nobody_knows_are_passed_over() -> None:
    given = {"kafka.bootstrap.servers": "h:1", "subscribe": "t", "kafka.fetch.min.bytes": "1", "inferSchema": "true"}
    assert SourceOptions.parse(given | {"groupIdPrefix": "p", "path": "x"}).subscription.topics == ("t",)


def test_no_topics_and_patterns_that_are_none_are_refused() -> None:
    with pytest.raises(OptionError, match="and none is given"):
        SourceOptions.parse(BROKERS)
    with pytest.raises(OptionError, match="is no regular expression"):
        SourceOptions.parse(BROKERS | {"subscribePattern": "("})


@pytest.mark.parametrize("wrong", [{"startingOffsets": "latest"}, {"startingOffsets": '{"plant":{"0":-1}}'}])
def test_a_batch_may_not_begin_at_the_latest(wrong: dict[str, str]) -> None:
    with pytest.raises(OptionError, match=r"startingOffsets can't be latest \(-1\) in a batch query"):
        SourceOptions.parse(GIVEN | wrong).for_batch()


def test_a_batch_may_not_end_at_the_earliest_nor_a_stream_anywhere() -> None:
    with pytest.raises(OptionError, match="endingOffsets can't be earliest"):
        SourceOptions.parse(GIVEN | {"endingOffsets": '{"plant":{"0":-2}}'}).for_batch()
    with pytest.raises(OptionError, match="endingTimestamp is an option of batch queries"):
        SourceOptions.parse(GIVEN | {"endingTimestamp": "5"}).for_stream()
