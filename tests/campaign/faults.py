"""What happens to a cluster, drawn from a seed: several faults at once, on different brokers, short and often."""

from __future__ import annotations

import random
import re
import socket
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from network.client.cluster_client import ClusterClient
from network.protocol.errors import ApiError
from network.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from tests.campaign.clocks import WallClocks
from tests.campaign.disks import SmallDisks
from tests.campaign.network import HUB, Direction, Network
from tests.campaign.orders import Orders
from tests.campaign.schedule import Fault, Schedule
from tests.campaign.workloads import QUEUES
from tests.campaign.zookeeper import ZooKeeper
from tests.support import wire
from tests.support.cluster import CLOCK, Broker, Cluster
from tests.support.replication import wait_in_sync

GAP_S = 0.45
"""Between the begin of one fault and the next, on average."""
REST_S = 45.0
"""After so long all faults end, and the cluster has to get whole before the next one."""
STOP_PATIENCE_S = 40.0


@dataclass(frozen=True)
class Tools:
    """What some faults need, and None where it can't be had."""

    network: Network | None
    clocks: WallClocks | None
    disks: SmallDisks | None


class Faults:
    """Draws them; `happened` counts. After `heal` all brokers run, and every replica is in sync."""

    def __init__(self, cluster: Cluster, zookeeper: ZooKeeper, tools: Tools, seed: int) -> None:
        self.happened: Counter[str] = Counter()
        self._rng = random.Random(seed)
        self.orders = Orders(cluster, random.Random(seed + 1))
        self._cluster = cluster
        self._zookeeper = zookeeper
        self._tools = tools
        self._schedule = Schedule()
        self._starter = ThreadPoolExecutor(len(cluster.brokers))
        kinds: list[tuple[int, Callable[[], bool]]] = [
            (3, self._kill),
            (2, self._torn),
            (3, self._pause),
            (1, self._restart),
            (1, self._zookeeper_away),
        ]
        if tools.network is not None:
            kinds += [(3, self._cut), (3, self._part), (2, self._cut_zookeeper), (1, self._slow), (1, self._lossy)]
        if tools.clocks is not None:
            kinds.append((2, self._clock))
        if tools.disks is not None:
            kinds.append((1, self._disk))
        self._kinds = [kind for weight, kind in kinds for _ in range(weight)]

    def strike(self, seconds: float, at_rest: Callable[[], None]) -> None:
        """For so long; `at_rest` is called whenever everything has healed meanwhile."""
        until = CLOCK.monotonic_ms() + seconds * 1000
        while CLOCK.monotonic_ms() < until:
            rest = min(until, CLOCK.monotonic_ms() + REST_S * 1000)
            while CLOCK.monotonic_ms() < rest:
                self._draw()
                if self._rng.random() < 0.15:
                    self.orders.give()
                self._go_on(self._rng.expovariate(1 / GAP_S))
            if self._rng.random() < 0.1:
                self._roll()
            self.heal()
            at_rest()

    def heal(self) -> None:
        """Wait until nothing is left of the faults."""
        while not self._schedule.is_idle:
            self._go_on(0.1)
        self.orders.finish()
        self._cluster.wait_ready()
        for topic in (*QUEUES, "__consumer_offsets"):
            wait_in_sync(self._cluster, topic)

    def close(self) -> None:
        """Its threads end; faults stay as they are."""
        self.orders.close()
        self._starter.shutdown(cancel_futures=True)

    def _go_on(self, seconds: float) -> None:
        until = CLOCK.monotonic_ms() + seconds * 1000
        while True:
            self._schedule.step()
            self._look_after()
            if CLOCK.monotonic_ms() >= until:
                return
            wire.pause(0.03)

    def _look_after(self) -> None:
        """No broker ends that nobody ended; Apache Kafka's does at times, and is started again."""
        for broker in self._cluster.brokers:
            if ("broker", broker.broker_id) in self._schedule.taken:
                continue
            assert broker.process is not None
            if not broker.process.is_running:
                assert broker.kind == "kafka", f"broker {broker.broker_id} ended by itself:\n{broker.log_tail()}"
                self._begin("ended by itself (Apache Kafka)", broker, self._bring_back(broker))

    def _draw(self) -> None:
        """One more, if a kind that fits beside the others is found soon."""
        for _ in range(5):
            if self._rng.choice(self._kinds)():
                return

    def _begin(self, name: str, broker: Broker, steps: Fault) -> bool:
        self.happened[name] += 1
        self._schedule.begin(name, {("broker", broker.broker_id)}, steps)
        return True

    def _free(self, what: str, of: list[Broker] | None = None) -> Broker | None:
        """A broker that no other fault has hold of in this way."""
        taken = self._schedule.taken
        free = [each for each in of or self._cluster.brokers if (what, each.broker_id) not in taken]
        return self._rng.choice(free) if free else None

    def _to_take_away(self, of: list[Broker] | None = None) -> Broker | None:
        """While a majority stays; rarely, one more."""
        away = sum(1 for taken in self._schedule.taken if isinstance(taken, tuple) and taken[0] == "broker")
        limit = (len(self._cluster.brokers) - 1) // 2 + (self._rng.random() < 0.05)
        return self._free("broker", of) if away < limit else None

    def _some(self, least: float, most: float) -> float:
        return self._rng.uniform(least, most)

    def _while(self) -> float:
        """So many seconds: often one or two, now and then longer than a session lasts."""
        return min(9, 0.3 + self._rng.expovariate(1 / 1.8))

    # ---- processes

    def _kill(self) -> bool:
        broker = self._to_take_away()
        return broker is not None and self._begin("kill", broker, self._killed(broker, torn=False))

    def _torn(self) -> bool:
        broker = self._to_take_away()
        return broker is not None and self._begin("torn", broker, self._killed(broker, torn=True))

    def _killed(self, broker: Broker, torn: bool) -> Fault:
        """Torn: it was in the middle of writing, the ends of its logs are what no client was ever told of."""
        broker.kill()
        if torn:
            for folder in (folder for parent in broker.log_dirs for folder in parent.glob("queue-*")):
                if segments := sorted(folder.glob("*.log")):
                    with segments[-1].open("ab") as file:
                        file.write(self._rng.randbytes(self._rng.randrange(1, 300)))
        yield self._some(0, 3)
        yield from self._bring_back(broker)

    def _bring_back(self, broker: Broker) -> Fault:
        """Until it listens. A broker whose ZooKeeper goes away while it starts ends, and is started again.

        So it is when its session expires before it is registered, or its old one is still there after ten seconds, as
        sessions begin anew with each start of ZooKeeper (Apache Kafka's does not wait for that at all).
        """
        while True:
            yield lambda: "zookeeper" not in self._schedule.taken
            started = self._starter.submit(broker.start)
            yield started.done
            if started.exception() is None:
                yield lambda: _listens(broker) or not _runs(broker)
                if _runs(broker):
                    return
            said = broker.log_tail()
            for_zookeeper = re.search(r"could not be started: (ZooKeeper|no ZooKeeper|Broker id . is already)", said)
            assert broker.kind == "kafka" or for_zookeeper, f"broker {broker.broker_id} does not start:\n{said}"
            yield 1.0

    def _pause(self) -> bool:
        broker = self._to_take_away()

        def steps(broker: Broker) -> Fault:
            broker.pause()
            yield self._while()
            broker.resume()

        return broker is not None and self._begin("pause", broker, steps(broker))

    def _restart(self) -> bool:
        broker = self._to_take_away()
        return broker is not None and self._begin("restart", broker, self._restarted(broker))

    def _restarted(self, broker: Broker) -> Fault:
        assert broker.process is not None
        broker.process.terminate()
        patience = CLOCK.monotonic_ms() + STOP_PATIENCE_S * 1000
        yield lambda: not _runs(broker) or CLOCK.monotonic_ms() > patience
        broker.kill()
        yield self._some(0, 2)
        yield from self._bring_back(broker)

    def _roll(self) -> None:
        """Each in turn, the next when all is well again."""
        self.heal()
        self.happened["roll"] += 1
        for broker in self._cluster.brokers:
            self._schedule.begin("roll", {("broker", broker.broker_id)}, self._restarted(broker))
            self.heal()

    # ---- ZooKeeper

    def _zookeeper_away(self) -> bool:
        if "zookeeper" in self._schedule.taken:
            return False

        def steps() -> Fault:
            self._zookeeper.kill()
            yield self._some(0, 6)
            self._zookeeper.start()

        self.happened["zookeeper"] += 1
        self._schedule.begin("zookeeper", {"zookeeper"}, steps())
        return True

    # ---- links

    def _link(self, name: str, broker: Broker, begin: Callable[[], None], end: Callable[[], None]) -> bool:
        def steps() -> Fault:
            begin()
            yield self._while()
            end()

        self.happened[name] += 1
        self._schedule.begin(name, {("link", broker.broker_id)}, steps())
        return True

    def _dropping(self, name: str, broker: Broker, rules: list[list[str]]) -> bool:
        network = self._network()
        number = broker.broker_id
        return self._link(name, broker, lambda: network.drop(number, rules), lambda: network.mend(number, rules))

    def _network(self) -> Network:
        assert self._tools.network is not None
        return self._tools.network

    def _direction(self) -> Direction:
        return self._rng.choice(("in", "out", "both"))

    def _cut(self) -> bool:
        """From everybody; one way at times. It counts as away."""
        network = self._network()
        broker = self._to_take_away()
        if broker is None or ("link", broker.broker_id) in self._schedule.taken:
            return False
        rules, number, direction = network.rules(way := self._direction()), broker.broker_id, way

        def steps() -> Fault:
            network.drop(number, rules)
            yield self._while()
            network.mend(number, rules)

        self.happened["cut off" if direction == "both" else "cut off one way"] += 1
        self._schedule.begin("cut off", {("broker", number), ("link", number)}, steps())
        return True

    def _part(self) -> bool:
        """Two brokers from each other, while all others see both."""
        network = self._network()
        broker = self._free("link")
        if broker is None:
            return False
        other = self._rng.choice([each for each in self._cluster.brokers if each is not broker])
        way = self._direction()
        rules = network.rules(way, network.host(other.broker_id))
        return self._dropping("cut between two" if way == "both" else "cut between two one way", broker, rules)

    def _cut_zookeeper(self) -> bool:
        network = self._network()
        broker = self._free("link")
        if broker is None:
            return False
        return self._dropping("cut from ZooKeeper", broker, network.rules("both", HUB, self._zookeeper.port))

    def _lossy(self) -> bool:
        network = self._network()
        broker = self._free("link")
        rules = network.rules(self._direction(), share=self._some(0.02, 0.2))
        return broker is not None and self._dropping("lossy", broker, rules)

    def _slow(self) -> bool:
        network = self._network()
        if (broker := self._free("link")) is None:
            return False
        number, way = broker.broker_id, self._direction()
        return self._link("slow", broker, lambda: network.slow(number, way), lambda: network.fast(number, way))

    # ---- clocks and disks

    def _clock(self) -> bool:
        """The wall clock of one broker, up to 25 minutes to either side of the true time, and it stays there.

        From an hour on a broker refuses records of clients whose clock is right.
        """
        clocks, broker = self._tools.clocks, self._free("clock")
        assert clocks is not None
        if broker is None:
            return False
        seconds = self._some(-1500, 1500)

        def steps(broker: Broker) -> Fault:
            clocks.set(broker, seconds)
            yield self._some(3, 12)

        self.happened["clock"] += 1
        self._schedule.begin("clock", {("clock", broker.broker_id)}, steps(broker))
        return True

    def _disk(self) -> bool:
        """One of two log directories is full, and goes offline; then there is room, and the broker starts anew.

        Of Odradek's alone: Apache Kafka's writes its indexes through mappings, where a full disk is a SIGBUS.
        """
        disks = self._tools.disks
        assert disks is not None
        broker = self._to_take_away([each for each in self._cluster.brokers if each.kind == "odradek"])

        def steps(broker: Broker) -> Fault:
            disks.fill(broker)
            yield lambda: _has_offline(broker)
            yield self._some(0, 3)
            broker.kill()
            disks.empty(broker)
            yield from self._bring_back(broker)

        return broker is not None and self._begin("full disk", broker, steps(broker))


def _runs(broker: Broker) -> bool:
    return broker.process is not None and broker.process.is_running


def _listens(broker: Broker) -> bool:
    try:
        with socket.create_connection((broker.host, broker.port), 0.2):
            return True
    except OSError:
        return False


def _has_offline(broker: Broker) -> bool:
    """Whether it names a log directory that failed."""
    try:
        with ClusterClient(broker.address, "campaign", CLOCK, request_timeout_ms=1_000, connect_timeout_ms=500) as one:
            answer = one.call_broker(broker.broker_id, DescribeLogDirsRequest(topics=None), 1_500)
    except (ApiError, OSError):
        return False
    return any(result.error_code for result in answer.results)
