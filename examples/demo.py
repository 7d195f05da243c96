"""The demo: a plant's sensors and motors write to a topic, pipelines on Spark make alerts, joined measurements and
averages of it, exactly once, and everything that comes out is compared with what went in.

python examples/demo.py [--seconds 40] [--rate 400] [--bootstrap-server HOST:PORT] [--master SPARK] [--output DIR]
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from plant import PLANT, RESULTS, Plant, end_offsets, prepare_topics

from barnabas.client.cluster import Cluster
from barnabas.client.errors import ClientError
from barnabas.client.settings import ClientSettings

if TYPE_CHECKING:
    from plant_pipelines import Pipelines
    from plant_results import Results
    from plant_screen import Screen

WARM_LIMIT_S = 120
DRAIN_LIMIT_S = 120


def main() -> int:
    parser = argparse.ArgumentParser(description="A plant, its pipelines on Spark, and a check of every result.")
    parser.add_argument(
        "--seconds", type=float, default=40, help="how long the plant produces after the first results (40)"
    )
    parser.add_argument("--rate", type=int, default=400, help="readings a second (400)")
    parser.add_argument("--bootstrap-server", help="a running cluster instead of a node of the demo's own")
    parser.add_argument("--master", default="local[2]", help="a Spark master (local[2])")
    parser.add_argument("--output", type=Path, help="where picture and Parquet files go (a new temporary directory)")
    options = parser.parse_args()
    if options.rate < 1 or options.seconds <= 0:
        parser.error("--rate and --seconds must be above 0")
    output = options.output or Path(tempfile.mkdtemp(prefix="barnabas-demo-"))
    if (output / "measurements").exists():
        parser.error(f"{output} holds results of another run already")
    output.mkdir(parents=True, exist_ok=True)
    try:
        with contextlib.ExitStack() as stack:
            servers = options.bootstrap_server or start_node(stack)
            return run(servers, options, output, stack)
    except (ClientError, DemoFailed) as error:
        print(f"The demo failed: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


class DemoFailed(Exception):
    pass


def start_node(stack: contextlib.ExitStack) -> str:
    from barnabas.testing import Node

    began = time.perf_counter()
    node = stack.enter_context(Node())
    print(f"A node is up at {node.bootstrap_servers} after {time.perf_counter() - began:.2f} s.", flush=True)
    return node.bootstrap_servers


def run(servers: str, options: argparse.Namespace, output: Path, stack: contextlib.ExitStack) -> int:
    from plant_results import Results
    from plant_screen import Screen

    settings = ClientSettings.from_properties({"bootstrap.servers": servers, "linger.ms": "5"})
    cluster = stack.enter_context(Cluster(settings))
    prepare_topics(cluster, settings)
    starting = end_offsets(cluster, PLANT, *RESULTS)
    pipelines = start_pipelines(servers, starting, options.master, output, stack)

    results = Results(settings, {at: offset for at, offset in starting.items() if at[0] != PLANT})
    plant = Plant(settings, options.rate)
    stack.callback(results.stop)
    stack.callback(plant.stop)
    results.start()
    plant.start()
    with Screen(plant, results) as screen:
        began = time.time()
        while time.time() < (results.warm_since_s or began + WARM_LIMIT_S) + options.seconds:
            watch(screen, plant, results, pipelines)
        plant.stop()
        drained_by = time.time() + DRAIN_LIMIT_S
        while not results.complete(plant.expected) and time.time() < drained_by:
            watch(screen, plant, results, pipelines)
        screen.show()
    pipelines.queries[-1].processAllAvailable()  # the last Parquet file
    pipelines.stop()
    return report(plant, results, screen.history, output)


def watch(screen: Screen, plant: Plant, results: Results, pipelines: Pipelines) -> None:
    screen.show()
    if problem := plant.error or results.error or pipelines.failure():
        raise DemoFailed(str(problem))
    time.sleep(0.25)


def start_pipelines(
    servers: str, starting: dict[tuple[str, int], int], master: str, output: Path, stack: contextlib.ExitStack
) -> Pipelines:
    from plant_pipelines import Pipelines

    from barnabas.pipelines.spark.startup.jvm import end
    from barnabas.spark import session

    began = time.perf_counter()
    print("Spark starts ...", flush=True)
    # A query that fails is told in a sentence by the demo, not in a page by Spark's log.
    with standard_error_to(output / "spark.log"):
        spark = session("barnabas demo", master=master, conf={"spark.log.level": "ERROR"})
    stack.callback(end, spark)
    checkpoints = Path(tempfile.mkdtemp(prefix="barnabas-demo-checkpoints-"))
    stack.callback(shutil.rmtree, checkpoints, ignore_errors=True)
    pipelines = Pipelines(spark, servers, starting, checkpoints, output / "measurements")
    stack.callback(pipelines.stop)
    pipelines.start()
    print(f"Spark {spark.version} runs {len(pipelines.queries)} queries after {time.perf_counter() - began:.1f} s.")
    return pipelines


@contextlib.contextmanager
def standard_error_to(path: Path) -> Iterator[None]:
    """For a process that is started meanwhile: what the JVM and its Python processes print belongs into a file."""
    kept = os.dup(2)
    with path.open("ab") as log:
        os.dup2(log.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def report(plant: Plant, results: Results, history: list[tuple[float, int, int, int]], output: Path) -> int:
    from plant_picture import draw
    from pyarrow import dataset

    files = [str(path) for path in (output / "measurements").glob("*.parquet")]
    parquet_rows = dataset.dataset(files).count_rows() if files else 0
    expected = plant.expected
    print(f"\n  {expected.readings:,} readings of {len(expected.measurements)} sensors and of motors\n")
    print(f"  {'':14} {'expected':>10} {'found':>10}")
    right = True
    for name, found, due, correct in results.checks(expected, parquet_rows):
        fine = correct and found == due
        right = right and fine
        print(f"  {name:14} {due:>10,} {found:>10,}  {'each exactly once' if fine else 'WRONG'}")
    p50, p99 = results.latency_ms(0.5), results.latency_ms(0.99)
    print(f"\n  latency from reading to alert: p50 {p50:.0f} ms, p99 {p99:.0f} ms")
    picture = output / "plant.svg"
    draw(picture, history, results.latencies_ms, f"latency of alerts: p50 {p50:.0f} ms, p99 {p99:.0f} ms")
    print(f"  picture        {picture}\n  Parquet files  {output / 'measurements'}")
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
