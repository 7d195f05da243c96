"""A snapshot loses nothing: replaying it gives the image back, whatever records came before."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.core.metadata.records import LEVEL_NAMES, MetadataError, decode_record, encode_record
from barnabas.core.metadata.snapshot import snapshot
from barnabas.core.metadata.state import MetadataImage
from barnabas.wire.records import metadata as wire
from barnabas.wire.schema import Record
from barnabas.wire.uuids import Uuid

ids = st.integers(1, 4).map(lambda number: Uuid(bytes([number]) * 16))
names = st.sampled_from(["a", "b", "c", "long-name.with_all"])
nodes = st.integers(1, 3)
node_lists = st.lists(nodes, max_size=3, unique=True)
maybe_node_lists = st.none() | node_lists


def builds(record_type: type[Record], **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Record]:
    return st.fixed_dictionaries(fields).map(lambda given_fields: record_type(**given_fields))


def endpoints(kind: type[Any]) -> st.SearchStrategy[list[Any]]:
    one = st.fixed_dictionaries({"name": names, "host": names, "port": st.integers(0, 65535)})
    return st.lists(one.map(lambda given_fields: kind(**given_fields)), max_size=2, unique_by=lambda each: each.name)


def features(kind: type[Any]) -> st.SearchStrategy[list[Any]]:
    one = st.fixed_dictionaries({"name": names, "max_supported_version": st.integers(0, 9)})
    return st.lists(one.map(lambda given_fields: kind(**given_fields)), max_size=2, unique_by=lambda each: each.name)


entities = st.lists(
    st.fixed_dictionaries({"entity_type": names, "entity_name": st.none() | names}).map(
        lambda given_fields: wire.EntityData(**given_fields)
    ),
    max_size=2,
    unique_by=lambda each: each.entity_type,
)

any_record: st.SearchStrategy[Record] = st.one_of(
    builds(wire.TopicRecord, name=names, topic_id=ids),
    builds(
        wire.PartitionRecord,
        partition_id=st.integers(0, 2),
        topic_id=ids,
        replicas=node_lists,
        isr=node_lists,
        removing_replicas=node_lists,
        adding_replicas=node_lists,
        leader=st.integers(-1, 3),
        leader_recovery_state=st.integers(0, 1),
        leader_epoch=st.integers(0, 9),
        partition_epoch=st.integers(0, 9),
        directories=st.lists(ids, max_size=3),
        eligible_leader_replicas=maybe_node_lists,
        last_known_elr=maybe_node_lists,
    ),
    builds(
        wire.PartitionChangeRecord,
        partition_id=st.integers(0, 2),
        topic_id=ids,
        isr=maybe_node_lists,
        leader=st.integers(-2, 3),
        removing_replicas=maybe_node_lists,
        adding_replicas=maybe_node_lists,
        leader_recovery_state=st.integers(-1, 1),
        eligible_leader_replicas=maybe_node_lists,
        last_known_elr=maybe_node_lists,
    ),
    builds(wire.RemoveTopicRecord, topic_id=ids),
    builds(wire.ClearElrRecord, topic_name=st.just("") | names),
    builds(
        wire.ConfigRecord,
        resource_type=st.sampled_from([2, 4, 32]),
        resource_name=st.just("") | names,
        name=names,
        value=st.none() | st.text(max_size=5),
    ),
    builds(
        wire.RegisterBrokerRecord,
        broker_id=nodes,
        incarnation_id=ids,
        broker_epoch=st.integers(0, 3),
        end_points=endpoints(wire.BrokerEndpoint),
        features=features(wire.BrokerFeature),
        rack=st.none() | names,
        fenced=st.booleans(),
        in_controlled_shutdown=st.booleans(),
        is_migrating_zk_broker=st.booleans(),
        log_dirs=st.lists(ids, max_size=2),
        cordoned_log_dirs=st.none() | st.lists(ids, max_size=2),
    ),
    builds(
        wire.BrokerRegistrationChangeRecord,
        broker_id=nodes,
        broker_epoch=st.integers(0, 3),
        fenced=st.integers(-1, 1),
        in_controlled_shutdown=st.integers(0, 1),
        log_dirs=st.lists(ids, max_size=2),
        cordoned_log_dirs=st.none() | st.lists(ids, max_size=2),
    ),
    builds(wire.FenceBrokerRecord, id=nodes, epoch=st.integers(0, 3)),
    builds(wire.UnfenceBrokerRecord, id=nodes, epoch=st.integers(0, 3)),
    builds(wire.UnregisterBrokerRecord, broker_id=nodes, broker_epoch=st.integers(0, 3)),
    builds(
        wire.RegisterControllerRecord,
        controller_id=nodes,
        incarnation_id=ids,
        zk_migration_ready=st.booleans(),
        end_points=endpoints(wire.ControllerEndpoint),
        features=features(wire.ControllerFeature),
    ),
    builds(wire.FeatureLevelRecord, name=names, feature_level=st.integers(0, 3)),
    builds(wire.ProducerIdsRecord, next_producer_id=st.integers(0, 5000)),
    builds(
        wire.ClientQuotaRecord,
        entity=entities,
        key=names,
        value=st.floats(allow_nan=False),
        remove=st.booleans(),
    ),
    builds(wire.AccessControlEntryRecord, id=ids, resource_name=names, principal=names, host=names),
    builds(wire.RemoveAccessControlEntryRecord, id=ids),
    builds(wire.UserScramCredentialRecord, name=names, mechanism=st.integers(1, 2), salt=st.binary(max_size=4)),
    builds(wire.RemoveUserScramCredentialRecord, name=names, mechanism=st.integers(1, 2)),
    builds(wire.DelegationTokenRecord, token_id=names, owner=names, renewers=st.lists(names, max_size=2)),
    builds(wire.RemoveDelegationTokenRecord, token_id=names),
    builds(wire.ZkMigrationStateRecord, zk_migration_state=st.integers(0, 4)),
    st.builds(wire.NoOpRecord),
    st.builds(wire.BeginTransactionRecord),
    st.builds(wire.EndTransactionRecord),
    st.builds(wire.AbortTransactionRecord),
)


@pytest.mark.timeout(600)  # thousands of records are made up, which takes long where others compute too
@settings(max_examples=300, deadline=None)
@given(records=st.lists(any_record, min_size=1, max_size=60), level=st.sampled_from(list(LEVEL_NAMES)))
def test_replaying_a_snapshot_gives_the_image_back(records: list[Record], level: int) -> None:
    image = MetadataImage()
    image.replay(wire.FeatureLevelRecord(name="metadata.version", feature_level=level))
    for record in records:
        before = image.copy()
        try:
            image.replay(record)
        except MetadataError:
            image = before
    if image.transaction is not None:
        image.replay(wire.AbortTransactionRecord())
    restored = MetadataImage()
    for record in snapshot(image):
        restored.replay(record)
    assert restored == image


def test_a_snapshot_has_kafkas_order_and_survives_the_wire() -> None:
    image = MetadataImage()
    topic_id = Uuid(b"t" * 16)
    image.replay_all(
        [
            wire.DelegationTokenRecord(token_id="t"),
            wire.UserScramCredentialRecord(name="anna", mechanism=1),
            wire.AccessControlEntryRecord(id=topic_id),
            wire.ProducerIdsRecord(broker_id=1, broker_epoch=5, next_producer_id=1000),
            wire.ClientQuotaRecord(
                entity=[wire.EntityData(entity_type="user", entity_name="anna")], key="k", value=1.0
            ),
            wire.ConfigRecord(resource_type=4, resource_name="1", name="n", value="v"),
            wire.TopicRecord(name="t", topic_id=topic_id),
            wire.PartitionRecord(partition_id=1, topic_id=topic_id, replicas=[1], isr=[1], leader=1),
            wire.PartitionRecord(partition_id=0, topic_id=topic_id, replicas=[1], isr=[1], leader=1),
            wire.RegisterControllerRecord(controller_id=1),
            wire.RegisterBrokerRecord(broker_id=1),
            wire.FeatureLevelRecord(name="group.version", feature_level=1),
            wire.FeatureLevelRecord(name="kraft.version", feature_level=1),
            wire.FeatureLevelRecord(name="metadata.version", feature_level=25),
        ]
    )
    records = list(snapshot(image))
    assert [type(record).__name__.removesuffix("Record") for record in records] == [
        "FeatureLevel",
        "FeatureLevel",
        "RegisterBroker",
        "RegisterController",
        "Topic",
        "Partition",
        "Partition",
        "Config",
        "ClientQuota",
        "ProducerIds",
        "AccessControlEntry",
        "UserScramCredential",
        "DelegationToken",
    ]
    assert records[0] == wire.FeatureLevelRecord(name="metadata.version", feature_level=25)
    assert records[1] == wire.FeatureLevelRecord(name="group.version", feature_level=1)
    assert [record.partition_id for record in records if isinstance(record, wire.PartitionRecord)] == [0, 1]
    assert wire.ProducerIdsRecord(broker_id=-1, broker_epoch=-1, next_producer_id=1000) in records
    assert [decode_record(encode_record(record, 25)) for record in records] == records


def test_within_a_transaction_there_is_no_snapshot() -> None:
    image = MetadataImage()
    image.replay(wire.BeginTransactionRecord())
    with pytest.raises(MetadataError, match="within a transaction"):
        list(snapshot(image))
