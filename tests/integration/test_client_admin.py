"""What administrators ask and order, as functions that give values."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from barnabas.client.admin import configs, groups, quotas, topics, transactions
from barnabas.client.cluster import Cluster
from barnabas.client.errors import BrokerUnreachable, Refused
from barnabas.client.producer import Producer
from barnabas.client.settings import ClientSettings
from barnabas.testing import Node
from barnabas.wire.errors import ErrorCode


@pytest.fixture
def cluster(barnabas: Node) -> Iterator[Cluster]:
    settings = ClientSettings.from_properties({}, bootstrap_servers=barnabas.bootstrap_servers)
    with Cluster(settings) as connected:
        yield connected


def test_a_topic_from_its_creation_to_its_end(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    topics.create_topic(cluster, "t", partitions=2, configs={"retention.ms": "1000"})
    with pytest.raises(Refused) as refusal:
        topics.create_topic(cluster, "t")
    assert refusal.value.code is ErrorCode.TOPIC_ALREADY_EXISTS
    topics.create_partitions(cluster, 3, {"t": None})
    (described,) = topics.describe_topics(cluster, ["t"])
    assert [partition.number for partition in described.partitions] == [0, 1, 2]
    configs.alter_configs(cluster, configs.TOPIC, {"t": {"retention.ms": None, "segment.bytes": "4096"}})
    told = configs.describe_configs(cluster, configs.TOPIC, ["t"])["t"]
    own = {each.name: each.value for each in told if not each.is_default}
    # The first of the two is the cluster's, where eligible leader replicas are tracked.
    assert own == {"min.insync.replicas": "1", "segment.bytes": "4096"}
    with Producer(cluster.settings) as producer:
        for _ in range(5):
            producer.send("t", b"x", partition=1)
    assert topics.delete_records(cluster, "t", 1, 3) == 3
    assert groups.log_ends(cluster, [("t", 0), ("t", 1)]) == {("t", 0): 0, ("t", 1): 5}
    topics.delete_topics(cluster, ["t"])
    with pytest.raises(Refused, match=r"^Topic 't' does not exist\. \(UNKNOWN_TOPIC_OR_PARTITION\)$"):
        topics.describe_topics(cluster, ["t"])
    assert capsys.readouterr() == ("", "")


def test_groups_have_rows_and_offsets_that_can_be_set(cluster: Cluster) -> None:
    topics.create_topic(cluster, "t", partitions=1)
    with Producer(cluster.settings) as producer:
        for _ in range(4):
            producer.send("t", b"x")
    groups.commit_offsets(cluster, "readers", {("t", 0): 1})
    assert [each.group for each in groups.list_groups(cluster)] == ["readers"]
    description = groups.describe_group(cluster, "readers")
    (row,) = groups.offset_rows(cluster, description)
    assert (description.state, row.current_offset, row.log_end_offset, row.lag) == ("Empty", 1, 4, 3)
    code, by_partition = groups.delete_offsets(cluster, "readers", [("t", 0)])
    assert (code, by_partition) == (ErrorCode.NONE, {("t", 0): ErrorCode.NONE})
    assert groups.delete_group(cluster, "readers") is ErrorCode.NONE
    assert groups.describe_group(cluster, "readers").state == groups.DEAD


def test_quotas_and_credentials_are_kept(cluster: Cluster) -> None:
    quotas.alter_quotas(cluster, [("users", "anna")], {"producer_byte_rate": 1024.0}, [])
    assert quotas.describe_quotas(cluster, [("users", "anna")]) == [
        quotas.Quota((("user", "anna"),), {"producer_byte_rate": 1024.0})
    ]
    quotas.alter_quotas(cluster, [("users", "anna")], {}, ["producer_byte_rate"])
    assert quotas.describe_quotas(cluster, [("users", "anna")]) == []
    quotas.alter_scram(cluster, "berta", {"SCRAM-SHA-256": (4096, "secret")}, [])
    assert quotas.describe_scram(cluster, "berta") == [("berta", [("SCRAM-SHA-256", 4096)])]
    quotas.alter_scram(cluster, "berta", {}, ["SCRAM-SHA-256"])
    assert quotas.describe_scram(cluster, "berta") == []


def test_what_is_not_there_is_an_error_of_the_client(cluster: Cluster) -> None:
    with pytest.raises(BrokerUnreachable, match=r"^Broker 7 is not there; the cluster has 1\.$"):
        configs.require_broker(cluster, 7)
    with pytest.raises(Refused, match="There is no transactional id nobody"):
        transactions.describe_transaction(cluster, "nobody")
    assert transactions.list_transactions(cluster) == []
