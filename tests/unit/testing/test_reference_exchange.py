from barnabas.wire.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from barnabas.wire.messages.metadata import MetadataResponse, MetadataResponseBroker, MetadataResponseTopic
from barnabas.wire.uuids import Uuid
from tests.support.reference_batches import crafted_batch
from tests.support.reference_exchange import differences, whole_batches


def topic(name: str, **rest: object) -> MetadataResponseTopic:
    return MetadataResponseTopic(name=name, topic_id=Uuid.random(), **rest)  # type: ignore[arg-type]


def test_ids_hosts_and_ports_may_differ() -> None:
    ours = MetadataResponse(brokers=[MetadataResponseBroker(node_id=1, host="a", port=1)], topics=[topic("t")])
    theirs = MetadataResponse(brokers=[MetadataResponseBroker(node_id=1, host="b", port=2)], topics=[topic("t")])
    assert differences(theirs, ours) == []


def test_a_missing_id_is_a_difference() -> None:
    found = differences(
        MetadataResponse(topics=[topic("t")]), MetadataResponse(topics=[MetadataResponseTopic(name="t")])
    )
    assert len(found) == 1
    assert found[0].startswith("topics[t].topic_id: Kafka has")


def test_the_order_of_names_does_not_matter_but_which_there_are_does() -> None:
    theirs = MetadataResponse(topics=[topic("a"), topic("b")])
    assert differences(theirs, MetadataResponse(topics=[topic("b"), topic("a")])) == []
    assert differences(theirs, MetadataResponse(topics=[topic("b")])) == ["topics: Kafka has ['a', 'b'], ours ['b']"]


def test_a_difference_is_told_with_its_path() -> None:
    def answer(code: int) -> FetchResponse:
        part = PartitionData(partition_index=3, error_code=code)
        return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[part])])

    assert differences(answer(0), answer(6)) == ["responses[t].partitions[3].error_code: Kafka has 0, ours 6"]
    assert differences(answer(0), answer(6), ignoring=["error_code"]) == []
    assert differences(answer(0), answer(6), ignoring=["responses.partitions.error_code"]) == []


def test_where_kafka_met_the_unforeseen_any_error_will_do() -> None:
    assert differences(FetchResponse(error_code=-1), FetchResponse(error_code=42)) == []
    assert differences(FetchResponse(error_code=-1), FetchResponse(error_code=0)) != []


def test_a_closed_connection_is_no_answer() -> None:
    assert differences(None, None) == []
    assert differences(None, FetchResponse()) != []


def test_records_are_compared_up_to_the_last_whole_batch() -> None:
    batch = crafted_batch()
    assert whole_batches(batch + batch + batch[:-1]) == batch + batch
    assert whole_batches(batch + b"\0") == batch
    assert whole_batches(b"") == b""
