"""A cluster is asked until the right node answers, and not longer than it may take."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from barnabas.client.cluster import Cluster, error_codes
from barnabas.client.errors import BrokerUnreachable, Refused, TimedOut, UnsupportedByBroker
from barnabas.client.settings import ClientSettings
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from barnabas.wire.messages.describe_groups import DescribedGroup, DescribeGroupsResponse
from barnabas.wire.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from barnabas.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from barnabas.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from barnabas.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)


def metadata(*ports: int, leader: int = 1, error: int = 0) -> MetadataResponse:
    """Nodes 1, 2, ... at these ports, and a topic of one partition."""
    brokers = [MetadataResponseBroker(node_id=1 + at, host="127.0.0.1", port=port) for at, port in enumerate(ports)]
    partitions = [MetadataResponsePartition(partition_index=0, leader_id=leader, leader_epoch=3)]
    topic = MetadataResponseTopic(name="t", error_code=error, partitions=[] if error else partitions)
    return MetadataResponse(brokers=brokers, cluster_id="c", controller_id=1, topics=[topic])


def in_turn(*answers: Any) -> Any:
    left = list(answers)
    return lambda request, version: left.pop(0) if len(left) > 1 else left[0]


def test_servers_that_cannot_be_reached_are_passed_over(scripted: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    real = socket.getaddrinfo

    def resolve(host: str, *rest: Any, **named: Any) -> Any:
        if host == "nowhere":
            raise socket.gaierror(-2, "unknown")
        return real(host, *rest, **named)

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    broker = scripted()
    broker.script[3] = lambda request, version: metadata(broker.port)
    settings = ClientSettings.from_properties({}, bootstrap_servers=f"nowhere:9092,{broker.bootstrap_servers}")
    with Cluster(settings) as cluster:
        found = cluster.metadata()
    assert (found.cluster_id, list(found.brokers), found.topics["t"].partitions[0].leader_epoch) == ("c", [1], 3)
    broker.close()
    with pytest.raises(BrokerUnreachable, match=r"nowhere:9092 .* does not resolve; 127\.0\.0\.1:\d+ .* refused\.$"):
        Cluster(settings).metadata()


def test_the_bootstrap_connection_goes_on_as_the_nodes_own(scripted: Any) -> None:
    broker = scripted({12: in_turn(HeartbeatResponse())})
    broker.script[3] = lambda request, version: metadata(broker.port)
    with Cluster(broker.settings()) as cluster:
        cluster.metadata()
        cluster.ask_node(1, HeartbeatRequest())
        with pytest.raises(BrokerUnreachable, match=r"^Node 7 is not there; the cluster consists of: 1\.$"):
            cluster.connection(7)
    assert broker.connections == 1


def test_an_address_that_is_advertised_and_leads_nowhere_is_named(scripted: Any) -> None:
    broker = scripted()
    broker.script[3] = lambda request, version: metadata(1)
    with (
        Cluster(broker.settings(default_api_timeout_ms="20")) as cluster,
        pytest.raises(BrokerUnreachable, match=r"the address that node 1 advertises; asked was 127\.0\.0\.1:\d+\)\.$"),
    ):
        cluster.ask_node(1, HeartbeatRequest())


def test_a_lost_connection_is_made_anew_and_the_request_repeated(scripted: Any) -> None:
    broker = scripted({12: in_turn(None, None, HeartbeatResponse(error_code=27))})
    with Cluster(broker.settings()) as cluster:
        assert cluster.ask(HeartbeatRequest()).error_code == 27
    assert broker.seen.count(("heartbeat", 4)) == 3


def test_the_controller_is_looked_for_again_when_it_has_moved(scripted: Any) -> None:
    moved, created = (
        CreateTopicsResponse(topics=[CreatableTopicResult(name="n", error_code=code)]) for code in (41, 0)
    )
    old, new = scripted({19: in_turn(moved)}), scripted({19: in_turn(created)})
    nodes = metadata(old.port, new.port)
    later = metadata(old.port, new.port)
    later.controller_id = 2
    old.script[3] = new.script[3] = in_turn(nodes, later)
    with Cluster(old.settings()) as cluster:
        assert cluster.ask_controller(CreateTopicsRequest()).topics[0].error_code == 0
    assert [broker.seen.count(("create_topics", 7)) for broker in (old, new)] == [1, 1]


def test_the_controller_is_looked_for_again_when_its_node_is_gone(scripted: Any) -> None:
    created = in_turn(CreateTopicsResponse(topics=[CreatableTopicResult(name="n", error_code=0)]))
    old, new = scripted({19: created}), scripted({19: created})
    old.script[3] = in_turn(metadata(old.port, new.port))
    later = metadata(old.port, new.port)
    later.controller_id = 2
    new.script[3] = in_turn(later)
    with Cluster(old.settings(default_api_timeout_ms="3000")) as cluster:
        assert cluster.ask_controller(CreateTopicsRequest()).topics[0].error_code == 0
        old.close()
        assert cluster.ask_controller(CreateTopicsRequest()).topics[0].error_code == 0
    assert new.seen.count(("create_topics", 7)) == 1


def test_the_coordinator_is_found_again_when_it_has_moved(scripted: Any) -> None:
    refusals = [HeartbeatResponse(error_code=int(code)) for code in (ErrorCode.NOT_COORDINATOR, 14, 15)]
    broker = scripted({12: in_turn(*refusals, HeartbeatResponse(error_code=27))})
    here = Coordinator(key="g", node_id=1, host="127.0.0.1", port=broker.port)
    unknown = Coordinator(key="g", node_id=-1, error_code=15)
    broker.script[10] = in_turn(
        FindCoordinatorResponse(coordinators=[unknown]), FindCoordinatorResponse(coordinators=[here])
    )
    with Cluster(broker.settings()) as cluster:
        assert cluster.ask_coordinator("group", "g", HeartbeatRequest()).error_code == 27
    finds = [name for name, _ in broker.seen if name == "find_coordinator"]
    assert len(finds) == 4  # none yet, found, moved, away; while it loads it is only asked again


def test_a_coordinator_that_never_comes_is_not_waited_for_for_ever(scripted: Any) -> None:
    broker = scripted({10: in_turn(FindCoordinatorResponse(coordinators=[Coordinator(key="g", error_code=15)]))})
    with Cluster(broker.settings(default_api_timeout_ms="30")) as cluster, pytest.raises(TimedOut, match="group g"):
        cluster.ask_coordinator("group", "g", HeartbeatRequest())


def test_a_coordinator_that_is_refused_is_not_asked_for_again(scripted: Any) -> None:
    refused = Coordinator(key="g", error_code=30, error_message="Not for you")
    broker = scripted({10: in_turn(FindCoordinatorResponse(coordinators=[refused]))})
    with Cluster(broker.settings()) as cluster, pytest.raises(Refused, match="Not for you") as raised:
        cluster.coordinator("group", "g")
    assert raised.value.code is ErrorCode.GROUP_AUTHORIZATION_FAILED


def offsets(code: int = 0, offset: int = 12) -> ListOffsetsResponse:
    partition = ListOffsetsPartitionResponse(partition_index=0, error_code=code, offset=offset, leader_epoch=4)
    return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=[partition])])


def test_offsets_are_asked_of_the_new_leader(scripted: Any) -> None:
    old, new = scripted({2: in_turn(offsets(code=6))}), scripted({2: in_turn(offsets())})
    old.script[3] = new.script[3] = in_turn(metadata(old.port, new.port), metadata(old.port, new.port, leader=2))
    with Cluster(old.settings()) as cluster:
        assert cluster.list_offsets({("t", 0): -1}) == {("t", 0): (12, -1, 4)}
    assert [broker.seen.count(("list_offsets", 11)) for broker in (old, new)] == [1, 1]


def test_a_leader_that_died_is_replaced_by_the_new_one(scripted: Any) -> None:
    dead, new = scripted({2: in_turn(None)}), scripted({2: in_turn(offsets())})
    dead.script[3] = new.script[3] = in_turn(metadata(dead.port, new.port), metadata(dead.port, new.port, leader=2))
    with Cluster(dead.settings()) as cluster:
        assert cluster.list_offsets({("t", 0): -1})["t", 0].offset == 12


def test_what_cannot_be_listed_is_refused_at_once(scripted: Any) -> None:
    broker = scripted({2: in_turn(offsets(code=29))})
    broker.script[3] = lambda request, version: metadata(broker.port)
    with Cluster(broker.settings()) as cluster:
        with pytest.raises(Refused, match=r"Offsets of t-0 cannot be listed \(TOPIC_AUTHORIZATION_FAILED\)$"):
            cluster.list_offsets({("t", 0): -1})
        cluster.connection(1).versions[2] = (1, 6)  # type: ignore[index]
        cluster.connection(1)._protocol._newest.clear()
        with pytest.raises(UnsupportedByBroker, match="ListOffsets up to version 6, and 7 is needed"):
            cluster.list_offsets({("t", 0): -3})


def test_a_topic_that_is_not_there_is_said_so(scripted: Any) -> None:
    broker = scripted()
    broker.script[3] = lambda request, version: metadata(broker.port, error=3)
    with (
        Cluster(broker.settings()) as cluster,
        pytest.raises(Refused, match=r"^Topic t does not exist \(UNKNOWN_TOPIC"),
    ):
        cluster.leader("t", 0)


def test_a_partition_that_is_not_there_is_said_so(scripted: Any) -> None:
    broker = scripted()
    broker.script[3] = lambda request, version: metadata(broker.port)
    with Cluster(broker.settings()) as cluster, pytest.raises(Refused, match="Topic t has no partition 4; it has 1"):
        cluster.leader("t", 4)


def test_a_partition_without_a_leader_is_waited_for(scripted: Any) -> None:
    broker = scripted()
    broker.script[3] = in_turn(metadata(broker.port, leader=-1), metadata(broker.port, error=5), metadata(broker.port))
    with Cluster(broker.settings()) as cluster:
        assert cluster.leader("t", 0) == 1


def test_error_codes_are_found_at_any_depth() -> None:
    answer = DescribeGroupsResponse(groups=[DescribedGroup(), DescribedGroup(error_code=16)])
    assert list(error_codes(answer)) == [ErrorCode.NOT_COORDINATOR]
    assert list(error_codes(HeartbeatResponse(error_code=9999))) == [ErrorCode.UNKNOWN_SERVER_ERROR]
