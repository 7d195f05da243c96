"""One sentence of pages that Spark says, and whether another start could help."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.client.errors import AuthenticationFailed, BrokerUnreachable
from barnabas.pipelines.running.failures import of_file, of_query
from barnabas.pipelines.streams.checkpoint import read_note
from barnabas.pipelines.streams.errors import CheckpointError, StateUnreachable, TopicGrown
from barnabas.pipelines.streams.state.storage import LocalDirectory

PAGE = """[STREAM_FAILED] Query [id = 0dc4, runId = 44f1] terminated with exception: [PYTHON_DATA_SOURCE_ERROR] \
Failed when Python data source instance 'barnabas' was called: Traceback (most recent call last):
  File "worker.py", line 3, in main
    reader.latestOffset(start)
  File "topics.py", line 7, in look
    raise error
{error}

SQLSTATE: 38000
=== Streaming Query ===
Identifier: upper
Current Committed Offsets: {{}}
"""


@pytest.mark.parametrize(
    ("error", "sentence", "final"),
    [
        (
            "barnabas.client.errors.BrokerUnreachable: h:9092 cannot be reached: connection refused.",
            "h:9092 cannot be reached: connection refused.",
            False,
        ),
        ("barnabas.pipelines.spark.topics.UnknownTopic: topic in does not exist on h:9092",
         "topic in does not exist on h:9092", False),
        ("barnabas.pipelines.spark.option_values.OptionError: startingOffsets is earliest or latest, not 'x'",
         "startingOffsets is earliest or latest, not 'x'", True),
        ("barnabas.pipelines.spark.sink.messages.Unrepeatable: batch 7 of q is not deterministic: 2 tasks",
         "batch 7 of q is not deterministic: 2 tasks", True),
        ("barnabas.pipelines.spark.sink.messages.SinkError: task 1 of batch 7 was not written",
         "task 1 of batch 7 was not written", False),
        ("barnabas.pipelines.spark.data_loss.LostRecords: offsets 3 to 4 of t-0 are gone",
         "offsets 3 to 4 of t-0 are gone", True),
        ("ZeroDivisionError: division by zero", "ZeroDivisionError: division by zero", False),
    ],
)  # fmt: skip
def test_of_a_page_of_sparks_the_last_python_error_is_told(error: str, sentence: str, final: bool) -> None:
    failure = of_query("upper", PAGE.format(error=error))
    assert (failure.told(), failure.final) == (f"query upper: {sentence}", final)


def test_of_an_error_without_python_the_first_line_is_told() -> None:
    text = (
        "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: [CAST_INVALID_INPUT] The value 'x' of "
        "the type STRING cannot be cast. SQLSTATE: 22018\nmore"
    )
    assert of_query("q", text).sentence == "The value 'x' of the type STRING cannot be cast."
    assert not of_query("q", text).final


def test_a_checkpoint_of_another_query_never_fits() -> None:
    assert of_query("q", "There are [2] sources in the checkpoint offsets and now there are [1] sources.").final


def raised(error: BaseException) -> BaseException:
    try:
        raise error
    except BaseException as caught:
        return caught


def test_what_is_wrong_in_the_file_stays_wrong_and_is_told_with_its_line() -> None:
    with pytest.raises(AttributeError) as mistyped:
        str.repalce  # type: ignore[attr-defined]  # noqa: B018
    told = of_file("app.py", mistyped.value).told()
    assert told == "app.py: AttributeError: type object 'str' has no attribute 'repalce', is replace meant?"
    failure = of_file(__file__, raised(KeyError("topic")))
    assert failure.final
    assert failure.sentence.startswith(f"{__file__}, line ")
    assert failure.sentence.endswith(": KeyError: 'topic'")
    with pytest.raises(SyntaxError) as broken:
        compile("x = (", "app.py", "exec")
    assert of_file("app.py", broken.value).told() == "app.py, line 1: '(' was never closed"


def test_a_file_that_waits_for_a_broker_may_start_later() -> None:
    failure = of_file("app.py", raised(BrokerUnreachable("h:9092 cannot be reached: connection refused.")))
    assert (failure.sentence, failure.final) == ("h:9092 cannot be reached: connection refused.", False)
    assert not of_file("app.py", raised(ConnectionRefusedError(111, "refused"))).final
    assert of_file("app.py", raised(AuthenticationFailed("wrong password"))).final


def test_a_checkpoint_that_was_used_before_may_come_back_and_a_new_one_is_told_at_once(tmp_path: Path) -> None:
    """An object store or a disk that was away when a driver started again ended a pipeline for good."""
    (tmp_path / "file").write_text("")
    with pytest.raises(StateUnreachable) as away:
        read_note(LocalDirectory(tmp_path / "file"), "topology.json")
    sentence = f"state can't be read from {tmp_path}/file/barnabas/topology.json: Not a directory"
    failure = of_file("app.py", away.value)
    assert (failure.sentence, failure.final) == (sentence, True)
    assert not of_file("app.py", away.value, resumed=True).final


def test_what_spark_refuses_in_the_file_is_final_but_not_a_broker_that_is_away() -> None:
    from pyspark.errors import AnalysisException

    refused = of_file(
        "app.py", raised(AnalysisException("[TABLE_OR_VIEW_NOT_FOUND] There is no table x. SQLSTATE: 42P01"))
    )
    assert (refused.sentence, refused.final) == ("There is no table x.", True)
    away = AnalysisException(PAGE.format(error="barnabas.client.errors.TimedOut: h:9092 did not answer"))
    assert (of_file("app.py", raised(away)).sentence, of_file("app.py", raised(away)).final) == (
        "h:9092 did not answer",
        False,
    )


def test_a_checkpoint_of_another_query_is_known_as_such() -> None:
    page = PAGE.format(error="barnabas.pipelines.spark.offsets.IncompatibleCheckpoint: the checkpoint holds {}")
    assert of_query("q", page).foreign_checkpoint
    assert of_query(
        "q", "[STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE] Provided key schema does not match"
    ).foreign_checkpoint
    assert of_file("app.py", CheckpointError("the checkpoint belongs to another topology")).foreign_checkpoint
    assert not of_file("app.py", ValueError("no")).foreign_checkpoint
    grown = of_file("app.py", TopicGrown("topic lines had 2 partitions and has 3"))
    assert grown.final
    assert not grown.foreign_checkpoint  # or the user would be told to delete what can be moved
