"""`python -m tests.support.chaos --minutes 5 --seed 17`: a cluster under faults; exits with 1 if there is an anomaly.

A seed gives the faults, their order and their length; when they come depends on the machine. `--kafka` does the same to
three nodes of Apache Kafka, so that the judge is known to be fair, `--mixed` to one of Apache Kafka and two of ours.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
from pathlib import Path

from tests.support.chaos.faults import KINDS
from tests.support.chaos.foreign import ForeignCluster
from tests.support.chaos.run import CONFIG, Run

NODES = [1, 2, 3]
# For the interpreter, while clients or the judge compute: the links between the nodes are a thread of this process.
RELAYS_WAIT_S = 0.0005


def main() -> int:
    parser = argparse.ArgumentParser(prog="chaos", description=__doc__)
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(100_000))
    parser.add_argument("--faults", help=f"only these, with commas between them: {', '.join(KINDS)}")
    parser.add_argument("--keep", type=Path, help="a new directory for the nodes' files and logs, kept if one fails")
    whose = parser.add_mutually_exclusive_group()
    whose.add_argument("--kafka", action="store_true", help="all nodes are Apache Kafka's")
    whose.add_argument("--mixed", action="store_true", help="one node, drawn by the seed, is Apache Kafka's")
    given = parser.parse_args()
    kinds = [each.strip() for each in given.faults.split(",")] if given.faults else None
    if unknown := [each for each in kinds or [] if each not in KINDS]:
        parser.error(f"no such fault: {', '.join(unknown)}")
    sys.setswitchinterval(RELAYS_WAIT_S)
    directory = given.keep or Path(tempfile.mkdtemp(prefix="chaos-"))
    directory.mkdir(parents=True, exist_ok=True)
    kafkas = NODES if given.kafka else NODES[given.seed % len(NODES) :][:1] if given.mixed else []
    print(f"seed {given.seed}, {given.minutes:g} minutes" + (f", Apache Kafka: {kafkas}" * bool(kafkas)), flush=True)
    run = Run(given.seed, given.minutes * 60, kinds=kinds, tell=lambda line: print(line, flush=True))
    try:
        with ForeignCluster(kafkas, directory / "data", brokers=len(NODES), config=CONFIG, links=True) as cluster:
            report = run(cluster)
            if given.keep:
                for node_id, node in cluster.nodes.items():
                    (directory / f"node-{node_id}.log").write_text(node.log())
    finally:
        if not given.keep:
            shutil.rmtree(directory, ignore_errors=True)
    print(report.text())
    return 1 if report.anomalies else 0


if __name__ == "__main__":
    sys.exit(main())
