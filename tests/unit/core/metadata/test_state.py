"""Replay: each record's exact effect on the image and on the delta."""

from __future__ import annotations

import pytest

from barnabas.core.metadata.records import MetadataError, UnsupportedMetadata
from barnabas.core.metadata.state import (
    BrokerState,
    ControllerState,
    Endpoint,
    MetadataDelta,
    MetadataImage,
    PartitionState,
    TopicState,
)
from barnabas.wire.records import metadata as wire
from barnabas.wire.records.framing import metadata_record_types
from barnabas.wire.records.raft import KRaftVersionRecord, VotersRecord
from barnabas.wire.uuids import ZERO_UUID, Uuid

ORDERS = Uuid(b"orders-topic-id.")
DIRECTORY = Uuid(b"directory-id-no1")


@pytest.fixture
def image() -> MetadataImage:
    """Topic `orders` with one partition on brokers 1, 2 and 3, led by 1."""
    image = MetadataImage()
    image.replay(wire.TopicRecord(name="orders", topic_id=ORDERS))
    image.replay(
        wire.PartitionRecord(
            partition_id=0,
            topic_id=ORDERS,
            replicas=[1, 2, 3],
            isr=[1, 2],
            leader=1,
            leader_epoch=4,
            partition_epoch=7,
            directories=[DIRECTORY] * 3,
            eligible_leader_replicas=[3],
        )
    )
    return image


def change(**fields: object) -> wire.PartitionChangeRecord:
    return wire.PartitionChangeRecord(topic_id=ORDERS, partition_id=0, **fields)  # type: ignore[arg-type]


def partition(image: MetadataImage) -> PartitionState:
    return image.topics["orders"].partitions[0]


def test_a_topic_with_a_partition_is_found_by_name_and_by_id(image: MetadataImage) -> None:
    expected = PartitionState(
        topic_id=ORDERS,
        topic="orders",
        index=0,
        replicas=[1, 2, 3],
        isr=[1, 2],
        leader=1,
        leader_epoch=4,
        partition_epoch=7,
        directories=[DIRECTORY] * 3,
        eligible_leader_replicas=[3],
    )
    assert image.topics == {"orders": TopicState("orders", ORDERS, {0: expected})}
    assert image.topic_by_id(ORDERS) is image.topics["orders"]
    assert image.topic_by_id(ZERO_UUID) is None


def test_a_change_of_the_isr_bumps_the_partition_epoch_alone(image: MetadataImage) -> None:
    delta = MetadataDelta()
    image.replay(change(isr=[1]), delta)
    changed = partition(image)
    assert (changed.isr, changed.leader, changed.leader_epoch, changed.partition_epoch) == ([1], 1, 4, 8)
    assert changed.eligible_leader_replicas == [3]
    assert delta.partitions == [changed]


@pytest.mark.parametrize("leader", [1, 2, -1])
def test_naming_a_leader_bumps_the_leader_epoch_even_if_it_is_the_same_or_none(
    image: MetadataImage, leader: int
) -> None:
    image.replay(change(leader=leader))
    changed = partition(image)
    assert (changed.leader, changed.leader_epoch, changed.partition_epoch) == (leader, 5, 8)


def test_a_reassignment_changes_only_the_fields_it_names(image: MetadataImage) -> None:
    image.replay(
        change(replicas=[1, 4], directories=[DIRECTORY, ZERO_UUID], adding_replicas=[4], removing_replicas=[2])
    )
    changed = partition(image)
    assert changed == PartitionState(
        topic_id=ORDERS,
        topic="orders",
        index=0,
        replicas=[1, 4],
        isr=[1, 2],
        leader=1,
        leader_epoch=4,
        partition_epoch=8,
        directories=[DIRECTORY, ZERO_UUID],
        adding_replicas=[4],
        removing_replicas=[2],
        eligible_leader_replicas=[3],
    )


def test_the_leader_recovery_state_changes_only_when_named(image: MetadataImage) -> None:
    image.replay(change(leader_recovery_state=1))
    image.replay(change(isr=[1]))
    assert partition(image).leader_recovery_state == 1
    image.replay(change(leader_recovery_state=0))
    assert partition(image).leader_recovery_state == 0


def test_replicas_without_a_known_directory_are_unassigned(image: MetadataImage) -> None:
    image.replay(wire.PartitionRecord(partition_id=1, topic_id=ORDERS, replicas=[1, 2], isr=[1], leader=1))
    assert image.topics["orders"].partitions[1].directories == [ZERO_UUID, ZERO_UUID]


def test_another_number_of_directories_than_replicas_is_an_error(image: MetadataImage) -> None:
    with pytest.raises(MetadataError, match="2 replicas have 1 directories"):
        image.replay(wire.PartitionRecord(partition_id=1, topic_id=ORDERS, replicas=[1, 2], directories=[DIRECTORY]))


def test_clearing_eligible_leaders_bumps_the_partition_epoch_where_there_were_any(image: MetadataImage) -> None:
    image.replay(wire.PartitionRecord(partition_id=1, topic_id=ORDERS, replicas=[1], isr=[1], partition_epoch=3))
    delta = MetadataDelta()
    image.replay(wire.ClearElrRecord(topic_name="orders"), delta)
    assert (partition(image).eligible_leader_replicas, partition(image).partition_epoch) == ([], 8)
    assert image.topics["orders"].partitions[1].partition_epoch == 3
    assert [each.index for each in delta.partitions] == [0]
    image.replay(change(last_known_elr=[3]))
    image.replay(wire.ClearElrRecord(topic_name=""))
    assert partition(image).last_known_elr == []


def test_a_removed_topic_takes_its_configs_with_it(image: MetadataImage) -> None:
    image.replay(wire.ConfigRecord(resource_type=2, resource_name="orders", name="retention.ms", value="5"))
    orders, delta = image.topics["orders"], MetadataDelta()
    image.replay(change(isr=[1]), delta)
    image.replay(wire.RemoveTopicRecord(topic_id=ORDERS), delta)
    assert image == MetadataImage()
    assert (delta.partitions, delta.deleted_topics, delta.configs) == ([], [orders], {(2, "orders")})


def test_a_topic_created_and_deleted_within_one_delta_leaves_no_trace() -> None:
    image, delta = MetadataImage(), MetadataDelta()
    image.replay(wire.TopicRecord(name="a", topic_id=ORDERS), delta)
    image.replay(wire.PartitionRecord(partition_id=0, topic_id=ORDERS, replicas=[1]), delta)
    assert list(delta.created_topics) == [ORDERS]
    image.replay(wire.RemoveTopicRecord(topic_id=ORDERS), delta)
    assert delta == MetadataDelta()


def test_a_topic_deleted_and_created_again_within_one_delta_is_both(image: MetadataImage) -> None:
    again, delta, former = Uuid(b"orders-topic-id2"), MetadataDelta(), image.topics["orders"]
    image.replay(wire.RemoveTopicRecord(topic_id=ORDERS), delta)
    image.replay(wire.TopicRecord(name="orders", topic_id=again), delta)
    image.replay(wire.PartitionRecord(partition_id=0, topic_id=again, replicas=[1]), delta)
    assert delta.deleted_topics == [former]
    assert [each.topic_id for each in delta.partitions] == [again]


def test_a_config_is_set_changed_and_removed() -> None:
    image, delta = MetadataImage(), MetadataDelta()
    for value in ("1", "2"):
        image.replay(wire.ConfigRecord(resource_type=4, resource_name="", name="log.retention.ms", value=value), delta)
    assert image.configs == {(4, ""): {"log.retention.ms": "2"}}
    assert delta.configs == {(4, "")}
    image.replay(wire.ConfigRecord(resource_type=4, resource_name="", name="log.retention.ms", value=None))
    image.replay(wire.ConfigRecord(resource_type=4, resource_name="", name="never.set", value=None))
    assert image.configs == {}


def registration(epoch: int = 10, **fields: object) -> wire.RegisterBrokerRecord:
    return wire.RegisterBrokerRecord(
        broker_id=1,
        incarnation_id=ORDERS,
        broker_epoch=epoch,
        end_points=[wire.BrokerEndpoint(name="PLAINTEXT", host="localhost", port=9092)],
        features=[wire.BrokerFeature(name="metadata.version", min_supported_version=25, max_supported_version=30)],
        rack=None,
        log_dirs=[DIRECTORY],
        **fields,  # type: ignore[arg-type]
    )


def test_a_broker_registers_is_unfenced_changed_fenced_and_unregistered() -> None:
    image, delta = MetadataImage(), MetadataDelta()
    image.replay(registration(), delta)
    assert delta.brokers_changed
    assert image.brokers[1] == BrokerState(
        id=1,
        epoch=10,
        incarnation_id=ORDERS,
        endpoints={"PLAINTEXT": Endpoint("PLAINTEXT", "localhost", 9092, 0)},
        features={"metadata.version": (25, 30)},
        fenced=True,
        log_dirs=[DIRECTORY],
    )
    image.replay(wire.UnfenceBrokerRecord(id=1, epoch=10))
    assert not image.brokers[1].fenced
    image.replay(wire.FenceBrokerRecord(id=1, epoch=10))
    assert image.brokers[1].fenced
    image.replay(wire.BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=10, fenced=-1, log_dirs=[ORDERS]))
    assert (image.brokers[1].fenced, image.brokers[1].log_dirs) == (False, [ORDERS])
    image.replay(wire.BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=10, in_controlled_shutdown=1))
    image.replay(
        wire.BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=10, fenced=1, cordoned_log_dirs=[ORDERS])
    )
    broker = image.brokers[1]
    assert (broker.fenced, broker.in_controlled_shutdown, broker.cordoned_log_dirs) == (True, True, [ORDERS])
    image.replay(registration(epoch=20, fenced=False))
    assert (image.brokers[1].epoch, image.brokers[1].in_controlled_shutdown) == (20, False)
    image.replay(wire.UnregisterBrokerRecord(broker_id=1, broker_epoch=20))
    assert image.brokers == {}


@pytest.mark.parametrize(
    "record",
    [
        wire.FenceBrokerRecord(id=1, epoch=9),
        wire.UnfenceBrokerRecord(id=1, epoch=9),
        wire.BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=9, fenced=1),
        wire.UnregisterBrokerRecord(broker_id=2, broker_epoch=10),
    ],
)
def test_a_change_of_another_registration_is_an_error(record: wire.FenceBrokerRecord) -> None:
    image = MetadataImage()
    image.replay(registration())
    with pytest.raises(MetadataError, match="which is not registered"):
        image.replay(record)


def test_a_controller_registers() -> None:
    image, delta = MetadataImage(), MetadataDelta()
    image.replay(
        wire.RegisterControllerRecord(
            controller_id=3,
            incarnation_id=ORDERS,
            end_points=[wire.ControllerEndpoint(name="CONTROLLER", host="localhost", port=9093)],
            features=[wire.ControllerFeature(name="kraft.version", min_supported_version=0, max_supported_version=1)],
        ),
        delta,
    )
    assert delta.controllers_changed
    assert image.controllers[3] == ControllerState(
        id=3,
        incarnation_id=ORDERS,
        endpoints={"CONTROLLER": Endpoint("CONTROLLER", "localhost", 9093, 0)},
        features={"kraft.version": (0, 1)},
    )


def test_features_are_finalized_and_removed_by_level_0() -> None:
    image, delta = MetadataImage(), MetadataDelta()
    image.replay(wire.FeatureLevelRecord(name="metadata.version", feature_level=25), delta)
    image.replay(wire.FeatureLevelRecord(name="group.version", feature_level=1), delta)
    image.replay(KRaftVersionRecord(k_raft_version=1), delta)
    assert delta.features_changed
    assert image.features == {"metadata.version": 25, "group.version": 1, "kraft.version": 1}
    assert image.metadata_version == 25
    image.replay(wire.FeatureLevelRecord(name="group.version", feature_level=0))
    assert image.features == {"metadata.version": 25, "kraft.version": 1}


def test_quotas_belong_to_an_entity_whatever_the_order_of_its_parts() -> None:
    image = MetadataImage()
    user, client = wire.EntityData(entity_type="user", entity_name="anna"), wire.EntityData(entity_type="client-id")
    client.entity_name = None
    image.replay(wire.ClientQuotaRecord(entity=[user, client], key="producer_byte_rate", value=1.5))
    image.replay(wire.ClientQuotaRecord(entity=[client, user], key="consumer_byte_rate", value=2.5))
    entity = (("client-id", None), ("user", "anna"))
    assert image.client_quotas == {entity: {"producer_byte_rate": 1.5, "consumer_byte_rate": 2.5}}
    for key in ("producer_byte_rate", "consumer_byte_rate"):
        image.replay(wire.ClientQuotaRecord(entity=[user, client], key=key, remove=True))
    assert image.client_quotas == {}


def test_acls_credentials_and_tokens_come_and_go_by_their_keys() -> None:
    image, delta = MetadataImage(), MetadataDelta()
    acl = wire.AccessControlEntryRecord(id=ORDERS, resource_type=2, resource_name="orders", principal="User:anna")
    scram = wire.UserScramCredentialRecord(name="anna", mechanism=1, salt=b"s", iterations=4096)
    token = wire.DelegationTokenRecord(token_id="t1", owner="User:anna")
    image.replay_all([acl, scram, token], delta)
    assert (image.acls, image.scram_credentials, image.delegation_tokens) == (
        {ORDERS: acl},
        {(1, "anna"): scram},
        {"t1": token},
    )
    assert (delta.acls_changed, delta.scram_changed, delta.delegation_tokens_changed) == (True, True, True)
    image.replay(wire.RemoveAccessControlEntryRecord(id=ORDERS))
    image.replay(wire.RemoveUserScramCredentialRecord(name="anna", mechanism=1))
    image.replay(wire.RemoveDelegationTokenRecord(token_id="t1"))
    assert image == MetadataImage()
    with pytest.raises(MetadataError, match="although it does not exist"):
        image.replay(wire.RemoveAccessControlEntryRecord(id=ORDERS))


def test_producer_ids_and_the_migration_state_are_kept_and_a_no_op_does_nothing() -> None:
    image, delta = MetadataImage(), MetadataDelta()
    image.replay(wire.NoOpRecord(), delta)
    assert (image, delta) == (MetadataImage(), MetadataDelta())
    image.replay(wire.ProducerIdsRecord(broker_id=1, broker_epoch=10, next_producer_id=1000), delta)
    image.replay(wire.ZkMigrationStateRecord(zk_migration_state=3))
    assert (image.next_producer_id, image.zk_migration_state, delta.producer_ids_changed) == (1000, 3, True)


def test_a_transaction_is_seen_only_at_its_end() -> None:
    image, delta = MetadataImage(), MetadataDelta()
    image.replay(wire.BeginTransactionRecord(name="Bootstrap records"), delta)
    image.replay(wire.FeatureLevelRecord(name="metadata.version", feature_level=25), delta)
    assert (image.features, delta.features_changed) == ({}, False)
    image.replay(wire.EndTransactionRecord(), delta)
    assert (image.features, delta.features_changed, image.transaction) == ({"metadata.version": 25}, True, None)


def test_an_aborted_transaction_never_happened() -> None:
    image = MetadataImage()
    image.replay(wire.BeginTransactionRecord())
    image.replay(wire.FeatureLevelRecord(name="metadata.version", feature_level=25))
    image.replay(wire.AbortTransactionRecord(reason="Controller failover"))
    assert image == MetadataImage()


def test_transactions_neither_nest_nor_end_unopened() -> None:
    image = MetadataImage()
    for record in (wire.EndTransactionRecord(), wire.AbortTransactionRecord()):
        with pytest.raises(MetadataError, match="never began"):
            image.replay(record)
    image.replay(wire.BeginTransactionRecord())
    with pytest.raises(MetadataError, match="within a transaction"):
        image.replay(wire.BeginTransactionRecord())


@pytest.mark.parametrize(
    "record",
    [
        wire.PartitionRecord(topic_id=ZERO_UUID, partition_id=0),
        wire.PartitionChangeRecord(topic_id=ORDERS, partition_id=1),
        wire.RemoveTopicRecord(topic_id=ZERO_UUID),
        wire.TopicRecord(name="orders", topic_id=ZERO_UUID),
        wire.TopicRecord(name="other", topic_id=ORDERS),
        wire.ClearElrRecord(topic_name="other"),
    ],
)
def test_records_about_topics_that_do_not_fit_are_errors(image: MetadataImage, record: wire.TopicRecord) -> None:
    before = image.copy()
    with pytest.raises(MetadataError):
        image.replay(record)
    assert image == before


def test_a_record_of_another_log_is_an_error() -> None:
    with pytest.raises(UnsupportedMetadata, match="VotersRecord is not a record of the metadata log"):
        MetadataImage().replay(VotersRecord())


def test_every_record_type_of_the_metadata_log_can_be_replayed() -> None:
    from barnabas.core.metadata import state

    assert set(metadata_record_types().values()) <= set(state._REPLAY)
    assert len(metadata_record_types()) == 26


def test_a_copy_does_not_change_with_its_original(image: MetadataImage) -> None:
    image.replay(wire.ConfigRecord(resource_type=2, resource_name="orders", name="retention.ms", value="5"))
    copy, before = image.copy(), image.copy()
    image.replay(change(leader=2))
    image.replay(wire.ConfigRecord(resource_type=2, resource_name="orders", name="retention.ms", value="6"))
    image.replay(registration())
    assert copy == before
    assert image != before
