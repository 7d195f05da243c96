"""Copies a topic to another, exactly once: what it read and what it wrote are committed in one transaction.

Run as `python read_process_write.py SERVERS INPUT OUTPUT PARTITIONS`. It is made to be killed at any moment, and ends
by itself whenever something is not as it should be: its successor goes on.
"""

import os
import sys
import traceback

from confluent_kafka import Consumer, Producer, TopicPartition

WAIT_S = 30
# Otherwise librdkafka forgets its brokers when all are gone, keeps a coordinator among them, and waits for it in vain.
PATIENT = {"metadata.recovery.strategy": "none", "reconnect.backoff.max.ms": 200}


def main(servers: str, source: str, target: str, partitions: int) -> None:
    producer = Producer({"bootstrap.servers": servers, "transactional.id": "copier", "linger.ms": 0, **PATIENT})
    producer.init_transactions(WAIT_S)  # first: what a predecessor left open is decided when this returns
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "copiers",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            **PATIENT,
        }
    )
    mine = [TopicPartition(source, index) for index in range(partitions)]
    committed = consumer.committed(mine, timeout=WAIT_S)
    assert not [each.error for each in committed if each.error is not None]
    consumer.assign([TopicPartition(each.topic, each.partition, max(each.offset, 0)) for each in committed])
    while True:
        messages = consumer.consume(200, timeout=0.2)
        if not messages:
            continue
        producer.begin_transaction()
        positions: dict[int, int] = {}
        for message in messages:
            assert message.error() is None, message.error()
            producer.produce(target, message.value(), partition=message.partition())
            positions[message.partition()] = message.offset() + 1
        offsets = [TopicPartition(source, index, position) for index, position in positions.items()]
        producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), WAIT_S)
        producer.commit_transaction(WAIT_S)


if __name__ == "__main__":
    try:
        main(*sys.argv[1:4], int(sys.argv[4]))
    except BaseException:
        traceback.print_exc()
        os._exit(1)  # librdkafka may try for ever to end in an orderly way
