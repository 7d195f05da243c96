"""One request of each API that checks rights, about resources that a caller may have rights on and about others.

Topics `t` and `u` exist, `missing` and `nowhere` do not; entries are about `t` and `missing`, the group `g` and the
transactional id `x`. Requests change nothing, or what the test restores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from barnabas.wire.messages import add_partitions_to_txn as add
from barnabas.wire.messages import add_raft_voter as voters
from barnabas.wire.messages import alter_client_quotas as quotas
from barnabas.wire.messages import alter_configs as configs
from barnabas.wire.messages import alter_partition_reassignments as reassign
from barnabas.wire.messages import alter_replica_log_dirs as dirs
from barnabas.wire.messages import alter_share_group_offsets as share_offsets
from barnabas.wire.messages import alter_user_scram_credentials as scram
from barnabas.wire.messages import create_acls, delete_acls, metadata, write_txn_markers
from barnabas.wire.messages import create_partitions as partitions
from barnabas.wire.messages import create_topics as creating
from barnabas.wire.messages import delete_records as deleting
from barnabas.wire.messages import delete_share_group_state as forget_state
from barnabas.wire.messages import describe_configs as describing
from barnabas.wire.messages import describe_log_dirs as log_dirs
from barnabas.wire.messages import describe_producers as producers
from barnabas.wire.messages import describe_quorum as quorum
from barnabas.wire.messages import describe_share_group_offsets as share
from barnabas.wire.messages import describe_topic_partitions as topic_partitions
from barnabas.wire.messages import elect_leaders as elect
from barnabas.wire.messages import fetch as fetching
from barnabas.wire.messages import incremental_alter_configs as incremental
from barnabas.wire.messages import initialize_share_group_state as begin_state
from barnabas.wire.messages import join_group as joining
from barnabas.wire.messages import leave_group as leaving
from barnabas.wire.messages import list_offsets as listing
from barnabas.wire.messages import offset_commit as committing
from barnabas.wire.messages import offset_delete as forgetting
from barnabas.wire.messages import offset_fetch as committed
from barnabas.wire.messages import offset_for_leader_epoch as epochs
from barnabas.wire.messages import produce as producing
from barnabas.wire.messages import read_share_group_state as read_state
from barnabas.wire.messages import read_share_group_state_summary as summary_of_state
from barnabas.wire.messages import share_acknowledge as acknowledging
from barnabas.wire.messages import streams_group_heartbeat as streams
from barnabas.wire.messages import txn_offset_commit as txn_commit
from barnabas.wire.messages import update_features as features
from barnabas.wire.messages import write_share_group_state as write_state
from barnabas.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from barnabas.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from barnabas.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from barnabas.wire.messages.delete_groups import DeleteGroupsRequest
from barnabas.wire.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from barnabas.wire.messages.describe_acls import DescribeAclsRequest
from barnabas.wire.messages.describe_client_quotas import DescribeClientQuotasRequest
from barnabas.wire.messages.describe_cluster import DescribeClusterRequest
from barnabas.wire.messages.describe_groups import DescribeGroupsRequest
from barnabas.wire.messages.describe_transactions import DescribeTransactionsRequest
from barnabas.wire.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from barnabas.wire.messages.end_txn import EndTxnRequest
from barnabas.wire.messages.find_coordinator import FindCoordinatorRequest
from barnabas.wire.messages.heartbeat import HeartbeatRequest
from barnabas.wire.messages.init_producer_id import InitProducerIdRequest
from barnabas.wire.messages.list_config_resources import ListConfigResourcesRequest
from barnabas.wire.messages.list_groups import ListGroupsRequest
from barnabas.wire.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from barnabas.wire.messages.list_transactions import ListTransactionsRequest
from barnabas.wire.messages.remove_raft_voter import RemoveRaftVoterRequest
from barnabas.wire.messages.share_fetch import ShareFetchRequest
from barnabas.wire.messages.share_group_describe import ShareGroupDescribeRequest
from barnabas.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from barnabas.wire.messages.streams_group_describe import StreamsGroupDescribeRequest
from barnabas.wire.messages.sync_group import SyncGroupRequest
from barnabas.wire.messages.unregister_broker import UnregisterBrokerRequest
from barnabas.wire.schema import Request
from barnabas.wire.uuids import Uuid
from tests.support.reference_batches import crafted_batch

TOPICS = ("t", "u", "missing", "nowhere")
GROUPS = ("g", "h")
TOPIC, GROUP, BROKER, BROKER_LOGGER = 2, 32, 4, 8
ANY, LITERAL, ALLOW, READ = 1, 3, 3, 3
UNKNOWN_ID = Uuid(b"\x07" * 16)
FEW = ["retention.ms"]
Ids = Callable[[str], Uuid]


def requests(topic_id: Ids) -> Iterator[tuple[Request, int]]:
    """Each with its version."""
    yield from _records(topic_id)
    yield from _groups(topic_id)
    yield from _transactions()
    yield from _topics(topic_id)
    yield from _cluster()
    yield from _newer_groups()
    yield from _share_states(topic_id)
    yield from _streams_groups()


def _records(topic_id: Ids) -> Iterator[tuple[Request, int]]:
    batch = crafted_batch([(b"key", b"value")])
    data = [producing.PartitionProduceData(index=0, records=batch)]
    by_name: list[Any] = [producing.TopicProduceData(name=name, partition_data=data) for name in TOPICS]
    yield producing.ProduceRequest(acks=-1, timeout_ms=15_000, topic_data=by_name), 9
    for name in ("t", "u", "nowhere"):
        by_id: list[Any] = [producing.TopicProduceData(topic_id=topic_id(name), partition_data=data)]
        yield producing.ProduceRequest(acks=-1, timeout_ms=15_000, topic_data=by_id), 13
    part = [fetching.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=100)]
    names = [fetching.FetchTopic(topic=name, partitions=part) for name in TOPICS]
    yield fetching.FetchRequest(max_bytes=100, topics=names), 12
    for name in ("t", "u", "nowhere"):  # one by one: answers by id have no order that two clusters share
        topic = fetching.FetchTopic(topic_id=topic_id(name), partitions=part)
        yield fetching.FetchRequest(max_bytes=100, topics=[topic]), 17
    at = [listing.ListOffsetsPartition(partition_index=0, timestamp=-2)]
    offsets = [listing.ListOffsetsTopic(name=name, partitions=at) for name in TOPICS]
    yield listing.ListOffsetsRequest(replica_id=-1, topics=offsets), 8
    epoch = [epochs.OffsetForLeaderPartition(partition=0, leader_epoch=0)]
    of_topics = [epochs.OffsetForLeaderTopic(topic=name, partitions=epoch) for name in TOPICS]
    yield epochs.OffsetForLeaderEpochRequest(replica_id=-1, topics=of_topics), 4
    records = [deleting.DeleteRecordsPartition(partition_index=0, offset=0)]
    deleted = [deleting.DeleteRecordsTopic(name=name, partitions=records) for name in TOPICS]
    yield deleting.DeleteRecordsRequest(topics=deleted, timeout_ms=15_000), 2
    asked = [producers.TopicRequest(name=name, partition_indexes=[0]) for name in TOPICS]
    yield producers.DescribeProducersRequest(topics=asked), 0
    yield InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000), 4


def _groups(topic_id: Ids) -> Iterator[tuple[Request, int]]:
    for group in GROUPS:
        yield FindCoordinatorRequest(key=group, key_type=0), 3
        protocols = [joining.JoinGroupRequestProtocol(name="range", metadata=b"")]
        yield (
            joining.JoinGroupRequest(
                group_id=group,
                session_timeout_ms=10_000,
                rebalance_timeout_ms=10_000,
                member_id="nobody",
                protocol_type="consumer",
                protocols=protocols,
            ),
            9,
        )
        yield HeartbeatRequest(group_id=group, generation_id=1, member_id="nobody"), 4
        yield SyncGroupRequest(group_id=group, generation_id=1, member_id="nobody"), 5
        yield leaving.LeaveGroupRequest(group_id=group, members=[leaving.MemberIdentity(member_id="nobody")]), 5
        offset = [committing.OffsetCommitRequestPartition(partition_index=0, committed_offset=1)]
        topics = [committing.OffsetCommitRequestTopic(name=name, partitions=offset) for name in TOPICS]
        yield committing.OffsetCommitRequest(group_id=group, topics=topics), 9
        for name in ("t", "u", "nowhere"):
            by_id = [committing.OffsetCommitRequestTopic(topic_id=topic_id(name), partitions=offset)]
            yield committing.OffsetCommitRequest(group_id=group, topics=by_id), 10
        old = [committed.OffsetFetchRequestTopic(name=name, partition_indexes=[0]) for name in TOPICS]
        yield committed.OffsetFetchRequest(group_id=group, topics=old), 7
        yield committed.OffsetFetchRequest(group_id=group, topics=None), 7
        for name in ("t", "u", "nowhere"):
            ids = [committed.OffsetFetchRequestTopics(topic_id=topic_id(name), partition_indexes=[0])]
            asked = committed.OffsetFetchRequestGroup(group_id=group, topics=ids)
            yield committed.OffsetFetchRequest(groups=[asked]), 10
        forgotten = [
            forgetting.OffsetDeleteRequestTopic(
                name=name, partitions=[forgetting.OffsetDeleteRequestPartition(partition_index=7)]
            )
            for name in TOPICS
        ]
        yield forgetting.OffsetDeleteRequest(group_id=group, topics=forgotten), 0
    yield FindCoordinatorRequest(coordinator_keys=list(GROUPS), key_type=0), 4
    yield DescribeGroupsRequest(groups=list(GROUPS), include_authorized_operations=True), 6
    yield DescribeGroupsRequest(groups=list(GROUPS), include_authorized_operations=True), 3
    yield ListGroupsRequest(), 5
    yield DeleteGroupsRequest(groups_names=list(GROUPS)), 2


def _transactions() -> Iterator[tuple[Request, int]]:
    for name in ("x", "y"):
        yield FindCoordinatorRequest(key=name, key_type=1), 3
        yield InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000), 4
        topics = [add.AddPartitionsToTxnTopic(name=topic, partitions=[0]) for topic in TOPICS]
        yield (
            add.AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=name,
                v3_and_below_producer_id=999_999,
                v3_and_below_producer_epoch=0,
                v3_and_below_topics=topics,
            ),
            3,
        )
        inner = add.AddPartitionsToTxnTransaction(
            transactional_id=name, producer_id=999_999, producer_epoch=0, topics=topics[:1]
        )
        yield add.AddPartitionsToTxnRequest(transactions=[inner]), 5
        for group in GROUPS:
            yield (
                AddOffsetsToTxnRequest(transactional_id=name, producer_id=999_999, producer_epoch=0, group_id=group),
                3,
            )
            offset = [txn_commit.TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=1)]
            yield (
                txn_commit.TxnOffsetCommitRequest(
                    transactional_id=name,
                    group_id=group,
                    producer_id=999_999,
                    producer_epoch=0,
                    topics=[txn_commit.TxnOffsetCommitRequestTopic(name=t, partitions=offset) for t in TOPICS],
                ),
                4,
            )
        yield EndTxnRequest(transactional_id=name, producer_id=999_999, producer_epoch=0, committed=True), 4
    yield DescribeTransactionsRequest(transactional_ids=["x", "y", "nobody"]), 0
    yield ListTransactionsRequest(), 1
    yield write_txn_markers.WriteTxnMarkersRequest(markers=[]), 1


def _topics(topic_id: Ids) -> Iterator[tuple[Request, int]]:
    asked = [metadata.MetadataRequestTopic(name=name) for name in TOPICS]
    without: dict[str, Any] = {"allow_auto_topic_creation": False}
    yield metadata.MetadataRequest(topics=asked, include_topic_authorized_operations=True, **without), 12
    for name in ("t", "u", "nowhere"):
        one_id = [metadata.MetadataRequestTopic(name=None, topic_id=topic_id(name))]
        yield metadata.MetadataRequest(topics=one_id, include_topic_authorized_operations=True), 12
    yield metadata.MetadataRequest(topics=None, include_cluster_authorized_operations=True), 10
    described = [topic_partitions.TopicRequest(name=name) for name in TOPICS]
    yield topic_partitions.DescribeTopicPartitionsRequest(topics=described), 0
    yield topic_partitions.DescribeTopicPartitionsRequest(topics=[]), 0
    new = [creating.CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in TOPICS]
    yield creating.CreateTopicsRequest(topics=new, timeout_ms=15_000, validate_only=True), 7
    more = [partitions.CreatePartitionsTopic(name=name, count=3, assignments=None) for name in TOPICS]
    yield partitions.CreatePartitionsRequest(topics=more, timeout_ms=15_000, validate_only=True), 3
    resources = [(TOPIC, name) for name in TOPICS] + [(GROUP, "g"), (GROUP, "h"), (BROKER, "1"), (BROKER_LOGGER, "1")]
    yield (
        describing.DescribeConfigsRequest(
            resources=[
                describing.DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=FEW)
                for kind, name in resources
            ]
        ),
        4,
    )
    changed = [configs.AlterableConfig(name="retention.ms", value="1000")]
    altered = [
        configs.AlterConfigsResource(resource_type=kind, resource_name=name, configs=changed if kind == TOPIC else [])
        for kind, name in resources[:7]
    ]
    yield configs.AlterConfigsRequest(resources=altered, validate_only=True), 2
    one = [incremental.AlterableConfig(name="retention.ms", value="1000")]
    of_group = [incremental.AlterableConfig(name="consumer.session.timeout.ms", value="50000")]
    of_broker = [incremental.AlterableConfig(name="log.retention.ms", value="1000")]
    kinds = {TOPIC: one, GROUP: of_group, BROKER: of_broker}
    yield (
        incremental.IncrementalAlterConfigsRequest(
            resources=[
                incremental.AlterConfigsResource(resource_type=kind, resource_name=name, configs=kinds[kind])
                for kind, name in resources[:7]
            ],
            validate_only=True,
        ),
        1,
    )


def _cluster() -> Iterator[tuple[Request, int]]:
    yield DescribeClusterRequest(include_cluster_authorized_operations=True), 1
    yield DescribeClusterRequest(include_cluster_authorized_operations=True, endpoint_type=2), 1
    yield DescribeClusterRequest(include_cluster_authorized_operations=True, include_fenced_brokers=True), 2
    asked = [log_dirs.DescribableLogDirTopic(topic=name, partitions=[0]) for name in TOPICS]
    yield log_dirs.DescribeLogDirsRequest(topics=asked), 4
    moved = [dirs.AlterReplicaLogDirTopic(name=name, partitions=[0]) for name in TOPICS]
    yield dirs.AlterReplicaLogDirsRequest(dirs=[dirs.AlterReplicaLogDir(path="/nowhere", topics=moved)]), 2
    elected = [elect.TopicPartitions(topic=name, partitions=[0]) for name in TOPICS]
    yield elect.ElectLeadersRequest(topic_partitions=elected), 2
    cancelled = [
        reassign.ReassignableTopic(name=name, partitions=[reassign.ReassignablePartition(partition_index=0)])
        for name in TOPICS
    ]
    yield reassign.AlterPartitionReassignmentsRequest(topics=cancelled), 0
    yield ListPartitionReassignmentsRequest(topics=None), 0
    yield DescribeClientQuotasRequest(components=[]), 1
    entity = [quotas.EntityData(entity_type="user", entity_name="nobody")]
    change = quotas.EntryData(entity=entity, ops=[quotas.OpData(key="producer_byte_rate", value=1000)])
    yield quotas.AlterClientQuotasRequest(entries=[change], validate_only=True), 1
    # Kafka 4.3.1 does not answer at all if somebody without rights asks for all users.
    yield DescribeUserScramCredentialsRequest(users=[UserName(name="nobody")]), 0
    gone = scram.ScramCredentialDeletion(name="nobody", mechanism=1)
    yield scram.AlterUserScramCredentialsRequest(deletions=[gone]), 0
    quorum_topic = quorum.TopicData(topic_name="__cluster_metadata", partitions=[quorum.PartitionData()])
    yield quorum.DescribeQuorumRequest(topics=[quorum_topic]), 2
    feature = features.FeatureUpdateKey(feature="metadata.version", max_version_level=1, upgrade_type=1)
    yield features.UpdateFeaturesRequest(feature_updates=[feature], validate_only=True), 1
    yield UnregisterBrokerRequest(broker_id=99), 0
    # The voter's cluster is another one: who may is told so.
    voter: dict[str, Any] = {"cluster_id": "elsewhere", "voter_id": 99, "voter_directory_id": UNKNOWN_ID}
    listener = voters.Listener(name="CONTROLLER", host="nowhere", port=1)
    yield voters.AddRaftVoterRequest(**voter, timeout_ms=1000, listeners=[listener]), 0
    yield RemoveRaftVoterRequest(**voter), 0
    yield ListConfigResourcesRequest(), 0
    yield ListConfigResourcesRequest(resource_types=[TOPIC, BROKER]), 1
    every = {"resource_type_filter": TOPIC, "pattern_type_filter": ANY, "operation": ANY, "permission_type": ANY}
    none = {"principal_filter": None, "host_filter": None}
    yield DescribeAclsRequest(resource_name_filter="elsewhere", **none, **every), 3
    creation = create_acls.AclCreation(
        resource_type=TOPIC,
        resource_name="t",
        resource_pattern_type=LITERAL,
        principal="User:topic-READ",
        host="*",
        operation=READ,
        permission_type=ALLOW,
    )
    yield create_acls.CreateAclsRequest(creations=[creation]), 3
    wanted = delete_acls.DeleteAclsFilter(resource_name_filter="elsewhere", **none, **every)
    yield delete_acls.DeleteAclsRequest(filters=[wanted]), 3


def _newer_groups() -> Iterator[tuple[Request, int]]:
    """Of consumers whose partitions the coordinator assigns, and of share groups; no member is known."""
    for group in GROUPS:
        for topics in (None, ["t"], list(TOPICS)):
            member = {"group_id": group, "member_id": "nobody", "member_epoch": 3, "subscribed_topic_names": topics}
            yield ConsumerGroupHeartbeatRequest(**member, rebalance_timeout_ms=10_000, topic_partitions=[]), 1
            yield ShareGroupHeartbeatRequest(**member), 1
        yield (
            ShareFetchRequest(group_id=group, member_id=str(Uuid(b"\x01" * 16)), share_session_epoch=7, max_bytes=1),
            1,
        )
        offsets = share.DescribeShareGroupOffsetsRequestGroup(group_id=group, topics=None)
        yield share.DescribeShareGroupOffsetsRequest(groups=[offsets]), 0
        deleted = [DeleteShareGroupOffsetsRequestTopic(topic_name=name) for name in TOPICS]
        yield DeleteShareGroupOffsetsRequest(group_id=group, topics=deleted), 0
        yield acknowledging.ShareAcknowledgeRequest(group_id=group, member_id="nobody", share_session_epoch=7), 1
        yield FindCoordinatorRequest(coordinator_keys=[f"{group}:{UNKNOWN_ID}:0"], key_type=2), 6
    yield ConsumerGroupDescribeRequest(group_ids=list(GROUPS), include_authorized_operations=True), 1
    yield ShareGroupDescribeRequest(group_ids=list(GROUPS), include_authorized_operations=True), 1


def _share_states(topic_id: Ids) -> Iterator[tuple[Request, int]]:
    """What leaders of share partitions ask the share coordinator; the group has no state in any of them."""
    for topic in (topic_id("t"), UNKNOWN_ID):
        begin = [begin_state.PartitionData(partition=0, state_epoch=-3, start_offset=0)]
        data: Any = [begin_state.InitializeStateData(topic_id=topic, partitions=begin)]
        yield begin_state.InitializeShareGroupStateRequest(group_id="nobody", topics=data), 0
        read = [read_state.PartitionData(partition=0, leader_epoch=0)]
        data = [read_state.ReadStateData(topic_id=topic, partitions=read)]
        yield read_state.ReadShareGroupStateRequest(group_id="nobody", topics=data), 0
        write = [write_state.PartitionData(partition=0, state_epoch=0, leader_epoch=0, start_offset=0)]
        data = [write_state.WriteStateData(topic_id=topic, partitions=write)]
        yield write_state.WriteShareGroupStateRequest(group_id="nobody", topics=data), 1
        gone = [forget_state.PartitionData(partition=0)]
        data = [forget_state.DeleteStateData(topic_id=topic, partitions=gone)]
        yield forget_state.DeleteShareGroupStateRequest(group_id="nobody", topics=data), 0
        look = [summary_of_state.PartitionData(partition=0, leader_epoch=0)]
        data = [summary_of_state.ReadStateSummaryData(topic_id=topic, partitions=look)]
        yield summary_of_state.ReadShareGroupStateSummaryRequest(group_id="nobody", topics=data), 1


def _streams_groups() -> Iterator[tuple[Request, int]]:
    """No member is known: who may is told so, and no group comes to be."""
    for group in GROUPS:
        for names in (["t"], list(TOPICS)):
            subtopology = streams.Subtopology(subtopology_id="0", source_topics=names)
            topology = streams.Topology(epoch=0, subtopologies=[subtopology])
            # Topology goes with joining only: its topics' rights are asked for first.
            yield (
                streams.StreamsGroupHeartbeatRequest(
                    group_id=group, member_id="nobody", member_epoch=3, topology=topology
                ),
                0,
            )
        yield streams.StreamsGroupHeartbeatRequest(group_id=group, member_id="nobody", member_epoch=3), 0
    yield StreamsGroupDescribeRequest(group_ids=list(GROUPS), include_authorized_operations=True), 0
    # The last ones: Apache Kafka makes a group of it, though there is no such partition.
    for group in GROUPS:
        moved = [share_offsets.AlterShareGroupOffsetsRequestPartition(partition_index=7)]
        altered = [
            share_offsets.AlterShareGroupOffsetsRequestTopic(topic_name=name, partitions=moved) for name in TOPICS
        ]
        yield share_offsets.AlterShareGroupOffsetsRequest(group_id=group, topics=altered), 0
