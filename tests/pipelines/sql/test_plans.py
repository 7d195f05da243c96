"""Random queries over random records end with the tables that Spark SQL computes in batch over the same records.

`make sql-plans PLANS=1000` tries many plans (`BARNABAS_PLANS`); a plan that fails names its seed.
"""

from __future__ import annotations

import os
from functools import partial
from typing import Any

import pytest

from tests.support.sql_plans import by_spark, difference

PLANS = int(os.environ.get("BARNABAS_PLANS", "4"))
FIRST = 1000  # other plans than those against SQLite


@pytest.mark.timeout(max(300, 3 * PLANS))
def test_a_random_plan_ends_as_spark_computes_it_in_batch(spark: Any) -> None:
    in_batch = partial(by_spark, spark)
    found = [one for seed in range(FIRST, FIRST + PLANS) if (one := difference(seed, in_batch)) is not None]
    assert not found, "\n\n".join(found[:3])
