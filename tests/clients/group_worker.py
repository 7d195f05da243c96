"""A consumer in a process of its own, to be killed: writes down what it has processed, then commits it.

group_worker.py SERVERS TOPIC GROUP FILE STRATEGY [INSTANCE]
"""

import signal
import sys
from pathlib import Path

from confluent_kafka import Consumer, KafkaException

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
consumer.subscribe([topic])
with Path(path).open("a") as processed:
    while not stopping:
        messages = [each for each in consumer.consume(50, 0.1) if each.error() is None]
        for message in messages:
            processed.write(f"{message.partition()} {message.offset()}\n")
        processed.flush()
        if messages:
            try:
                consumer.commit(asynchronous=False)
            except KafkaException:
                pass  # A rebalance is on: whoever gets the partition begins where the last commit was.
consumer.close()
