"""One story: brokers under load and in trouble for 25 seconds of simulated time, then peace, then the reckoning.

Power is lost by one broker at a time, and the others are not killed until that one is in sync again: what was committed
lies on two disks at least, and nobody promises more.
"""

from __future__ import annotations

from random import Random

from tests.support.replication.cluster import CLIENT, CONTROLLER, Cluster, SimulatedBroker
from tests.support.replication.judges import Judges

TROUBLE_MS, PEACE_MS, STEP_MS = 25_000, 120_000, 500


class Story:
    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = Random(seed * 7919 + 1)
        self.unclean = self.random.random() < 0.1
        self.cluster = Cluster(
            seed, Judges(allows_loss=self.unclean), brokers=self.random.choice([3, 3, 4]), unclean=self.unclean
        )

    def run(self) -> None:
        try:
            self._run()
        except AssertionError as error:
            last = "\n".join(self.cluster.transcript[-60:])
            raise AssertionError(f"seed {self.seed}: {error}\n{last}") from None

    def _run(self) -> None:
        cluster, random = self.cluster, self.random
        for broker in cluster.brokers.values():
            broker.start()
        cluster.run_until(cluster.now_ms + 3_000)
        self._load()
        cluster.loss = random.choice([0, 0, 0.02, 0.1])
        cluster.slow = random.choice([0, 0.01, 0.05, 0.3])
        until = cluster.now_ms + TROUBLE_MS
        while cluster.now_ms < until:
            cluster.run_until(cluster.now_ms + random.choice([20, 100, 300, 1_000, 3_000]))
            self._trouble()
        self._reconcile()

    def _load(self) -> None:
        cluster, random = self.cluster, self.random
        self._is_loading = True

        def again() -> None:
            if self._is_loading:
                cluster.produce()
                if random.random() < 0.3:
                    cluster.consume()
                is_pause = random.random() < 0.01
                cluster.after(random.randint(1_000, 8_000) if is_pause else random.randint(10, 60), again)

        again()

    # Trouble

    def _trouble(self) -> None:
        random = self.random
        brokers = list(self.cluster.brokers.values())
        broker = random.choice(brokers)
        weak = [each for each in brokers if each.lost_tail]
        self._mend()
        deed = random.choice(
            ["kill", "power", "stop", "cut", "cut", "isolate", "pause", "start", "start", "elect", "elect"]
        )
        if deed == "start":
            self._start(random.choice(brokers))
        elif deed == "kill":
            if not weak:
                broker.stop()
        elif deed == "power":
            if not weak and self._is_safe_without(broker):
                broker.stop(power_lost=True)
        elif deed == "stop":
            if broker.is_up:
                broker.wants_shut_down = True
        elif deed == "cut":
            self.cluster.cut.add((random.choice(self._ends()), random.choice(self._ends())))
        elif deed == "isolate":
            self._isolate(broker.id)
        elif deed == "pause":
            if broker.is_up:
                broker.is_paused = True
                self.cluster.tell(f"{broker.id} hangs")
        elif broker.is_up:
            self.cluster.controller.elect_preferred()

    def _is_safe_without(self, broker: SimulatedBroker) -> bool:
        """Whether another one has everything, and will still be known to have it when it is heard of next."""
        controller = self.cluster.controller
        trusted = {*controller.partition.isr, *controller.partition.eligible_leader_replicas}
        return all(each.is_up for each in self.cluster.brokers.values()) and any(
            each is not broker
            and each.id in trusted
            and controller.image.brokers[each.id].incarnation_id == each.incarnation
            for each in self.cluster.brokers.values()
        )

    def _ends(self) -> list[int]:
        return [CONTROLLER, *self.cluster.brokers]

    def _isolate(self, broker_id: int) -> None:
        """From the others, not always from its clients."""
        self.cluster.tell(f"{broker_id} is cut off")
        others = [each for each in self._ends() if each != broker_id]
        if self.random.random() < 0.3:
            others.append(CLIENT)
        for other in others:
            self.cluster.cut |= {(broker_id, other), (other, broker_id)}

    def _mend(self) -> None:
        random = self.random
        if random.random() < 0.3:
            self.cluster.cut.clear()
        for broker in self.cluster.brokers.values():
            if broker.is_paused and random.random() < 0.4:
                self.cluster.tell(f"{broker.id} goes on")
                broker.resume()

    @staticmethod
    def _start(broker: SimulatedBroker) -> None:
        if not broker.is_up:
            broker.start()

    # Peace

    def _reconcile(self) -> None:
        cluster = self.cluster
        cluster.tell("peace")
        cluster.loss = cluster.slow = 0.0
        cluster.cut.clear()
        until = cluster.now_ms + PEACE_MS
        for broker in cluster.brokers.values():
            if broker.is_paused:
                broker.resume()
        while cluster.now_ms < until:
            for broker in cluster.brokers.values():
                if broker.is_up and broker.wants_shut_down:
                    continue  # it stops, and is started then
                self._start(broker)
            cluster.run_until(cluster.now_ms + STEP_MS)
            if cluster.now_ms > until - PEACE_MS + 5_000:
                self._is_loading = False
            if not self._is_loading and self._is_settled():
                cluster.judges.end()
                return
        state = cluster.controller.partition
        raise AssertionError(f"not in sync again: leader {state.leader}, isr {state.isr} of {state.replicas}")

    def _is_settled(self) -> bool:
        state = self.cluster.controller.partition
        if state.leader < 0 or sorted(state.isr) != sorted(state.replicas):
            return False
        partitions = [broker.partition for broker in self.cluster.brokers.values()]
        ends = {broker.log.log_end_offset for broker in self.cluster.brokers.values()}
        marks = {each.high_watermark for each in partitions if each is not None}
        return None not in partitions and len(ends) == 1 and marks == ends


class LostTail(Story):
    """A follower loses the end of its log while nobody writes, comes back and cannot reach its leader yet.

    To the leader it looks as if that one still had everything: only its broker epoch says that it is another process.
    """

    def _run(self) -> None:
        cluster, random = self.cluster, self.random
        for broker in cluster.brokers.values():
            broker.start()
        cluster.run_until(cluster.now_ms + 3_000)
        self._load()
        cluster.run_until(cluster.now_ms + random.randint(1_000, 4_000))
        self._is_loading = False
        cluster.run_until(cluster.now_ms + 9_000)
        state = cluster.controller.partition
        broker = cluster.brokers[random.choice([each for each in state.isr if each != state.leader])]
        broker.log.flushed = 0
        broker.stop(power_lost=True)
        cluster.cut.add((broker.id, state.leader))
        broker.start()
        cluster.run_until(cluster.now_ms + 10_000)
        self._reconcile()
