"""`python -m tests.support.replication 200` tells 200 stories; REPLICATION_SEED=17 tells one of them in full."""

from __future__ import annotations

import os
import sys
import time

from tests.support.replication.story import Story


def main() -> int:
    alone = os.environ.get("REPLICATION_SEED")
    if alone is not None:
        story = Story(int(alone))
        try:
            story.run()
        finally:
            print("\n".join(story.cluster.transcript))
        return 0
    first, count = int(os.environ.get("REPLICATION_FIRST", "0")), int(sys.argv[1])
    started = time.monotonic()
    for done, seed in enumerate(range(first, first + count), 1):
        try:
            Story(seed).run()
        except AssertionError as error:
            print(error)
            return 1
        if done % 500 == 0 or done == count:
            rate = done / (time.monotonic() - started)
            print(f"{done} stories from seed {first} on hold, {rate:.1f} seeds a second", flush=True)
    return 0


sys.exit(main())
