"""A consumer in a process of its own, to be killed: writes down what it has processed, then commits it.

group_worker.py SERVERS TOPIC GROUP FILE STRATEGY [INSTANCE]
"""

import signal
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

servers, topic, group, path, strategy, *instance = sys.argv[1:]
stopping: list[int] = []
signal.signal(signal.SIGTERM, lambda number, frame: stopping.append(number))
config = {
    "bootstrap.servers": servers,
    "group.id": group,
    "auto.offset.reset": "earliest",
    "enable.auto.commit": False,
    "partition.assignment.strategy": strategy,
    "session.timeout.ms": 1500,
    "heartbeat.interval.ms": 200,
    "reconnect.backoff.max.ms": 200,
    "log_level": 0,
}
if instance:
    config["group.instance.id"] = instance[0]
consumer = Consumer(config)
times_assigned: Counter[int] = Counter()


def assigned(_: Consumer, partitions: list[TopicPartition]) -> None:
    times_assigned.update(each.partition for each in partitions)


def next_messages() -> Iterator[Message]:
    """One by one, so that it is known to which assignment each belongs."""
    for turn in range(50):
        message = consumer.poll(0 if turn else 0.1)
        if message is None:
            return
        if message.error() is None:
            yield message


consumer.subscribe([topic], on_assign=assigned)
with Path(path).open("a") as processed:
    while not stopping:
        has_processed = False
        for message in next_messages():
            partition = message.partition()
            has_processed = True
            processed.write(f"{partition} {message.offset()} {times_assigned[partition]}\n")
        processed.flush()
        if has_processed:
            try:
                consumer.commit(asynchronous=False)
            except KafkaException:
                pass  # A rebalance is on: whoever gets the partition begins where the last commit was.
consumer.close()
