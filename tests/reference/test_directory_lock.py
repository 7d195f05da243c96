"""One process for a log directory, whoever it is: ours, or a JVM."""

from pathlib import Path

import pytest

from barnabas.testing import Node, StartFailed
from barnabas.wire.messages.metadata import MetadataRequest
from tests.support import reference
from tests.support.reference_exchange import Side


def test_a_directory_in_use_by_apache_kafka_is_refused(apache_kafka: reference.ApacheKafka) -> None:
    with pytest.raises(StartFailed) as refused, Node(data_dir=apache_kafka.data_dir):
        pass
    assert str(refused.value) == f"{apache_kafka.data_dir} is in use by another process"
    with Side("Apache Kafka", apache_kafka) as side:
        assert side.ask(MetadataRequest(topics=[]), 12) is not None


@pytest.mark.usefixtures("apache_kafka")
def test_apache_kafka_is_refused_where_our_node_runs(tmp_path: Path, barnabas_node: Node) -> None:
    intruder = reference.ApacheKafka(directory=tmp_path, data_dir=barnabas_node.data_dir)
    with pytest.raises(RuntimeError, match="ended while starting"), intruder:
        pass
    assert "Failed to acquire lock on file .lock" in intruder.log_file.read_text()
    with barnabas_node.connect() as connection:
        assert connection.request(MetadataRequest(topics=[])).brokers[0].node_id == 1
