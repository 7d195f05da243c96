"""`python -m tests.support.chaos --minutes 5 --seed 17`: a cluster under faults; exits with 1 if there is an anomaly.

A seed gives the faults, their order and their length; when they come depends on the machine.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
from pathlib import Path

from barnabas.testing import Cluster
from tests.support.chaos.faults import KINDS
from tests.support.chaos.run import CONFIG, Run


def main() -> int:
    parser = argparse.ArgumentParser(prog="chaos", description=__doc__)
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(100_000))
    parser.add_argument("--faults", help=f"only these, with commas between them: {', '.join(KINDS)}")
    parser.add_argument("--keep", type=Path, help="a new directory for the nodes' files and logs, kept if one fails")
    given = parser.parse_args()
    kinds = [each.strip() for each in given.faults.split(",")] if given.faults else None
    if unknown := [each for each in kinds or [] if each not in KINDS]:
        parser.error(f"no such fault: {', '.join(unknown)}")
    directory = given.keep or Path(tempfile.mkdtemp(prefix="chaos-"))
    directory.mkdir(parents=True, exist_ok=True)
    print(f"seed {given.seed}, {given.minutes:g} minutes", flush=True)
    run = Run(given.seed, given.minutes * 60, kinds=kinds, tell=lambda line: print(line, flush=True))
    try:
        with Cluster(brokers=3, config=CONFIG, links=True, data_dir=directory / "data") as cluster:
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
