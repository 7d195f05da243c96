from barnabas.core.controller.automatic import automatic_topic
from barnabas.wire.messages.create_topics import CreatableTopic

BROKER = {
    "num.partitions": 4,
    "default.replication.factor": 2,
    "offsets.topic.num.partitions": 50,
    "offsets.topic.replication.factor": 3,
    "offsets.topic.segment.bytes": 104857600,
    "transaction.state.log.num.partitions": 50,
    "transaction.state.log.replication.factor": 3,
    "transaction.state.log.min.isr": 2,
    "transaction.state.log.segment.bytes": 104857600,
    "share.coordinator.state.topic.num.partitions": 50,
    "share.coordinator.state.topic.replication.factor": 3,
    "share.coordinator.state.topic.min.isr": 2,
    "share.coordinator.state.topic.segment.bytes": 104857600,
}


def configs(topic: CreatableTopic) -> dict[str, str | None]:
    return {config.name: config.value for config in topic.configs}


def test_an_ordinary_topic_has_the_defaults_and_no_configs() -> None:
    topic = automatic_topic("orders", BROKER.__getitem__)
    assert (topic.name, topic.num_partitions, topic.replication_factor, topic.configs) == ("orders", 4, 2, [])


def test_the_offsets_of_groups_are_compacted() -> None:
    topic = automatic_topic("__consumer_offsets", BROKER.__getitem__)
    assert (topic.num_partitions, topic.replication_factor) == (50, 3)
    assert configs(topic) == {"compression.type": "producer", "cleanup.policy": "compact", "segment.bytes": "104857600"}


def test_the_state_of_transactions_is_compacted_and_never_led_by_one_that_lags() -> None:
    assert configs(automatic_topic("__transaction_state", BROKER.__getitem__)) == {
        "compression.type": "uncompressed",
        "cleanup.policy": "compact",
        "unclean.leader.election.enable": "false",
        "min.insync.replicas": "2",
        "segment.bytes": "104857600",
    }


def test_the_state_of_share_groups_is_kept() -> None:
    assert configs(automatic_topic("__share_group_state", BROKER.__getitem__)) == {
        "compression.type": "producer",
        "cleanup.policy": "delete",
        "retention.ms": "-1",
        "min.insync.replicas": "2",
        "segment.bytes": "104857600",
    }
