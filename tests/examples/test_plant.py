from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from barnabas.streams import TopologyTestDriver

MINUTE = 60_000


def test_the_plant_s_topology_joins_alerts_and_averages(example: Callable[[str], Any]) -> None:
    plant = example("plant")
    with TopologyTestDriver(example("plant_pipelines").topology(), partitions=plant.PARTITIONS) as driver:
        for sensor in plant.SENSORS:
            driver.pipe_input(plant.METADATA, sensor.id, sensor.metadata)
        sensor, motor = plant.SENSORS[0], plant.MOTORS[0]
        highest = sensor.metadata["alert_above"]
        values = [(highest, 10), (highest + 1, MINUTE - 1), (20.0, MINUTE)]
        for number, (value, at) in enumerate(values):
            reading = {"sequence": number, "id": sensor.id, "at": at, "value": value}
            driver.pipe_input(plant.PLANT, sensor.id, reading, timestamp_ms=at)
        for number, state in enumerate(("running", "error", "idle"), start=10):
            reading = {"sequence": number, "id": motor, "at": 20, "state": state}
            driver.pipe_input(plant.PLANT, motor, reading, timestamp_ms=20)

        measurements = [value for _, value in driver.read_output(plant.MEASUREMENTS)]
        assert [(row["sequence"], row["value"]) for row in measurements] == [(0, highest), (1, highest + 1), (2, 20.0)]
        assert {(row["unit"], row["location"]) for row in measurements} == {("°C", sensor.location)}
        assert "alert_above" not in measurements[0]
        alerts = {value["sequence"]: value for _, value in driver.read_output(plant.ALERTS)}
        assert set(alerts) == {1, 11}
        assert alerts[11] == {"sequence": 11, "id": motor, "at": 20, "state": "error"}
        averages = {(key, row["minute"]): row for key, row in driver.read_output(plant.AVERAGES)}
        assert set(averages) == {(sensor.id, 0), (sensor.id, MINUTE)}
        assert averages[sensor.id, 0]["average"] == pytest.approx(highest + 0.5)
        assert averages[sensor.id, 0]["count"] == 2
        assert averages[sensor.id, MINUTE] == {"id": sensor.id, "minute": MINUTE, "average": 20.0, "count": 1}
