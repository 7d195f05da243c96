"""`zookeeper-server-start`: the first command of the older courses, which needs to do nothing."""

from __future__ import annotations


def main(arguments: list[str]) -> int:
    print("No ZooKeeper is needed: a node keeps the cluster's metadata itself. Go on with kafka-server-start.")
    return 0
