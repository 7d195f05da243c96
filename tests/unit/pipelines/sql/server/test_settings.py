"""Settings of the SQL server: from a file, from variables as the Docker image takes them, and from the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.client.errors import InvalidSetting
from barnabas.pipelines.sql.server.settings import SqlSettings, load_properties


def test_variables_win_over_the_file_and_overrides_over_both(tmp_path: Path) -> None:
    (tmp_path / "ksql-server.properties").write_text(
        "bootstrap.servers=one:9092\nksql.service.id=file_\nlisteners=http://0.0.0.0:8088\n"
    )
    variables = {
        "KSQL_BOOTSTRAP_SERVERS": "two:9092",
        "KSQL_LISTENERS": "http://0.0.0.0:8089",
        "KSQL_KSQL_SERVICE_ID": "docker_",
        "KSQL_KSQL_SCHEMA_REGISTRY_URL": "http://registry:8081",
        "KSQL_KSQL_STREAMS_AUTO_OFFSET_RESET": "earliest",
        "KSQL_KSQL_LOGGING_PROCESSING_STREAM_AUTO_CREATE": "true",
        "KSQL_A__B___C": "d",
        "KSQL_OPTS": "-Dno.setting=1",
        "PATH": "/bin",
    }
    found = load_properties(str(tmp_path / "ksql-server.properties"), variables, {"listeners": "http://127.0.0.1:8090"})
    assert found["a_b-c"] == "d"
    assert not [name for name in found if "setting" in name or name == "opts"]
    settings = SqlSettings.from_properties(found)
    assert (settings.host, settings.port, settings.service_id) == ("127.0.0.1", 8090, "docker_")
    assert settings.properties["bootstrap.servers"] == "two:9092"
    assert settings.command_topic == "_confluent-ksql-docker__command_topic"
    assert settings.log_topic == "docker_ksql_processing_log"
    assert settings.makes_log_stream
    defaults = settings.defaults()
    assert defaults["auto.offset.reset"] == "earliest"
    assert defaults["ksql.schema.registry.url"] == "http://registry:8081"
    assert defaults["processing.guarantee"] == "exactly_once_v2"


@pytest.mark.parametrize("listeners", ["http://127.0.0.1", "http://a:b", "http://a:99999"])
def test_a_listener_that_is_none_is_told(listeners: str) -> None:
    with pytest.raises(InvalidSetting, match="which is not http://host:port"):
        SqlSettings.from_properties({"listeners": listeners})
