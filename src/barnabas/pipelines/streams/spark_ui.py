"""A topology in Spark's UI: a query on the page "SQL / DataFrame" whose plan is the topology, with figures by operator.

Operators run inside a task (docs/decisions/0008), so Spark's own plan of a batch has one node for all of them. But the
UI shows what Spark's listeners were told. So they are told of one execution more, which lasts as long as the topology
runs: its plan has a node for each operator, and every few seconds they are told by how much the figures of the workers
have grown. The history server shows it, too.

Spark keeps each of these reports until an execution ends. After REPORTS_MAX of them a new execution takes over, which
begins with all that was counted so far.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from barnabas.pipelines.streams.describe import described
from barnabas.pipelines.streams.figures import STATE_SUMS, Figures
from barnabas.pipelines.streams.graph import Graph, Node

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from barnabas.pipelines.streams.topology import Topology

log = logging.getLogger("barnabas.streams")
FIRST_REPORT_S = 1.0
REPORT_S = 5.0
END_S = 5.0  # for the last report, when a topology is stopped
REPORTS_MAX = 500
SUM = "sum"  # Spark's word for metrics whose reports are added up
STATE = "state"  # the name under which the sums of all partitions are kept
OPERATOR_METRICS = {
    "rows_in": "rows in",
    "rows_out": "rows out",
    "late": "late records",
    "skipped": "skipped records",
    "dead_letters": "dead letters",
    "milliseconds": "time in ms",
}
STATE_METRICS = {name: f"state {name}" if name in ("rows", "bytes") else f"cache {name}" for name in STATE_SUMS}
Metric = tuple[str, str]  # operator, or STATE, and what is counted


@dataclass(frozen=True)
class PlanNode:
    """What Spark draws as a node, below those that read from it."""

    name: str
    detail: str
    metrics: tuple[Metric, ...]
    inputs: tuple[PlanNode, ...]

    def all_metrics(self) -> Iterator[Metric]:
        yield from self.metrics
        for one in self.inputs:
            yield from one.all_metrics()


def plan_of(name: str, graph: Graph) -> PlanNode:
    """A tree, as Spark's plans are: what several operators read from is drawn once, and named again at the others."""
    drawn: set[int] = set()

    def drawing(node: Node) -> PlanNode:
        detail = node.operator.detail()
        if node.number in drawn:
            return PlanNode(f"{node.name} (see above)", detail, (), ())
        drawn.add(node.number)
        metrics = tuple((node.name, what) for what in OPERATOR_METRICS)
        return PlanNode(node.name, detail, metrics, tuple(drawing(one) for one in node.inputs))

    ends = [node for node in graph.nodes if not any(graph.consumers(node))]
    metrics = tuple((STATE, what) for what in STATE_METRICS)
    return PlanNode(f"Topology {name}", "", metrics, tuple(drawing(node) for node in ends))


def counted(figures: Figures) -> dict[Metric, int]:
    found: dict[Metric, int] = {}
    for name, one in figures.operators.items():
        numbers = asdict(one) | {"milliseconds": round(one.seconds * 1000)}
        found |= {(name, what): numbers[what] for what in OPERATOR_METRICS}
    for what in STATE_METRICS:
        found[STATE, what] = sum(getattr(one, what) for one in figures.state.values())
    return found


class Execution:
    """An execution that Spark's listeners are told of."""

    def __init__(self, spark: SparkSession, description: str, details: str, plan: PlanNode) -> None:
        context = spark.sparkContext
        assert context._jvm is not None
        self._jvm: Any = context._jvm
        self._gateway: Any = context._gateway
        self._bus = context._jsc.sc().listenerBus()
        accumulators = self._object(self._jvm.org.apache.spark.util, "AccumulatorContext")
        self._ids = {metric: accumulators.newId() for metric in plan.all_metrics()}
        self._id = self._object(self._jvm.org.apache.spark.sql.execution, "SQLExecution").nextExecutionId()
        self._told: dict[Metric, int] = {}
        self.reports = 0
        nothing = self._jvm.scala.Option.apply(None)
        start = self._ui.SparkListenerSQLExecutionStart(
            self._id, nothing, description, "", details, self._info(plan), now_ms(),
            self._jvm.PythonUtils.toScalaMap({}), self._sequence([]).toSet(), nothing, nothing,
        )  # fmt: skip
        self._bus.post(start)

    @property
    def _ui(self) -> Any:
        return self._jvm.org.apache.spark.sql.execution.ui

    def report(self, counts: Mapping[Metric, int]) -> None:
        """What was counted in all; Spark is told what is new of it."""
        grown = {metric: count - self._told.get(metric, 0) for metric, count in counts.items() if metric in self._ids}
        grown = {metric: more for metric, more in grown.items() if more}
        if not grown:
            return
        self._told |= {metric: counts[metric] for metric in grown}
        self.reports += 1
        ids = self._longs([self._ids[metric] for metric in grown])
        pairs = ids.zip(self._longs(list(grown.values())))
        self._bus.post(self._ui.SparkListenerDriverAccumUpdates(self._id, pairs))

    def end(self, problem: str | None = None) -> None:
        nothing = self._jvm.scala.Option.apply(None)
        told = self._jvm.scala.Option.apply(problem)
        self._bus.post(self._ui.SparkListenerSQLExecutionEnd(self._id, now_ms(), told, nothing))

    def _info(self, node: PlanNode) -> Any:
        words = OPERATOR_METRICS | STATE_METRICS
        metric_info = self._jvm.org.apache.spark.sql.execution.metric.SQLMetricInfo
        return self._jvm.org.apache.spark.sql.execution.SparkPlanInfo(
            node.name,
            f"{node.name} {node.detail}".strip(),
            self._sequence([self._info(one) for one in node.inputs]),
            self._jvm.PythonUtils.toScalaMap({}),
            self._sequence([metric_info(words[metric[1]], self._ids[metric], SUM) for metric in node.metrics]),
        )

    def _object(self, package: Any, name: str) -> Any:
        return getattr(getattr(package, f"{name}$"), "MODULE$")

    def _sequence(self, items: Sequence[Any]) -> Any:
        return self._jvm.PythonUtils.toSeq(list(items))

    def _longs(self, numbers: Sequence[int]) -> Any:
        """As Scala's; a list of them would have small ones as integers."""
        array = self._gateway.new_array(self._jvm.long, len(numbers))
        for index, number in enumerate(numbers):
            array[index] = number
        return self._jvm.scala.collection.immutable.ArraySeq.unsafeWrapArray(array)


class Shown:
    """A thread beside a running topology that tells Spark of it."""

    def __init__(
        self,
        spark: SparkSession,
        topology: Topology,
        figures: Callable[[], Figures | None],
        is_active: Callable[[], bool],
    ) -> None:
        self._spark, self._topology = spark, topology
        self._figures, self._is_active = figures, is_active
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"ui-{topology.name}", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._ended.set()
        self._thread.join(END_S)

    def _run(self) -> None:
        try:
            self._tell()
        except Exception as problem:  # Spark may be gone, or be another one than this was written for
            log.debug("Spark's UI does not show topology %s any more: %s", self._topology.name, problem)

    def _tell(self) -> None:
        execution = self._execution(self._figures())
        pause_s = FIRST_REPORT_S
        while not self._ended.wait(pause_s) and self._is_active():
            pause_s = REPORT_S
            figures = self._figures()
            if figures is None:
                continue
            if execution.reports >= REPORTS_MAX:
                execution.end()
                execution = self._execution(figures)
            execution.report(counted(figures))
        if (figures := self._figures()) is not None:
            execution.report(counted(figures))
        execution.end()

    def _execution(self, figures: Figures | None) -> Execution:
        name = self._topology.name
        details = described(self._topology, figures)
        return Execution(self._spark, f"topology {name}: its operators", details, plan_of(name, self._topology.graph))


def is_seen(spark: SparkSession) -> bool:
    """Whether there is a UI, now or in the history server."""
    context = spark.sparkContext
    return context.uiWebUrl is not None or context.getConf().get("spark.eventLog.enabled", "false") == "true"


def now_ms() -> int:
    return time.time_ns() // 1_000_000
