"""The workloads of streams_rivals.py with Quix Streams, until SIGTERM. It runs in an environment of its own, which has
neither Barnabas nor this repository on its path.

    python rival_quix.py WORKLOAD GROUP SERVERS INPUT TABLE OUTPUT STATE_DIRECTORY
"""

import sys

from quixstreams import Application
from quixstreams.dataframe.windows.aggregations import Count, Mean

MINUTE_MS = 60_000


def counted(value, state):
    count = state.get("count", 0) + 1
    state.set("count", count)
    return count


def joined(value, row):
    return {"id": value["id"], "amount": value["amount"], "name": row["name"]}


def build(app, workload, read, table, written):
    out = app.topic(written, value_serializer="json")
    kind = "bytes" if workload == "count" else "json"
    frame = app.dataframe(app.topic(read, value_deserializer=kind))
    if workload == "filter":
        frame = frame.filter(lambda value: value["amount"] > 25)
        frame = frame.apply(lambda value: {"id": value["id"], "twice": value["amount"] * 2})
    elif workload == "count":
        frame = frame.apply(counted, stateful=True)
    elif workload == "average":
        frame = frame.tumbling_window(MINUTE_MS).agg(n=Count(), average=Mean("amount")).current()
    else:
        frame = frame.join_asof(app.dataframe(app.topic(table, value_deserializer="json")), on_merge=joined)
    frame.to_topic(out)


def main():
    workload, group, servers, read, table, written, directory = sys.argv[1:]
    app = Application(
        broker_address=servers,
        consumer_group=group,
        auto_offset_reset="earliest",
        state_dir=directory,
        loglevel="WARNING",
    )
    build(app, workload, read, table, written)
    app.run()


if __name__ == "__main__":
    main()
