"""What happens to brokers, their network and their ZooKeeper, by one seed.

Single faults that overlap and are mended at some later time; and stories (`stories.py`).
"""

from __future__ import annotations

import errno
import os
from random import Random

from tests.simulation.real.brokers import ZOOKEEPER, Cluster, SimBroker
from tests.simulation.real.stories import LAST, STORIES, Stories, is_healthy
from tests.simulation.real.znodes import Znodes

SINGLE = ("kill", "stop", "power", "pause", "cut", "cut zookeeper", "expire", "reset", "disk")
WAIT_MS = (50, 1_000)


class Faults:
    """Each has a number, and what the seed draws for a number depends on nothing else: one can be left out."""

    def __init__(self, cluster: Cluster, znodes: Znodes, planned: frozenset[int] | None) -> None:
        self.happened: list[int] = []
        self._cluster = cluster
        self._znodes = znodes
        self._planned = planned
        self._number = 0
        self._stories = Stories(cluster, znodes, self._take_away)
        self._fragile: SimBroker | None = None
        """Who lost what was not synced, and may be in an ISR still."""

    def next(self) -> None:
        """Some time, and then a fault or the end of an earlier one."""
        self._number += 1
        rng = Random(f"{self._cluster.seed} fault {self._number}")
        self._cluster.runtime.run_for(rng.randint(*WAIT_MS))
        several = len(self._cluster.brokers) >= 3
        stories = STORIES if several else ("no answer",)
        kind = rng.choice(stories if rng.random() < 0.6 else SINGLE)
        if rng.random() < 0.3 or (kind in STORIES and len(self._healthy()) < min(3, len(self._cluster.brokers))):
            self._repair(rng)
        elif self._is_planned() and (self._story if kind in STORIES else self._single)(kind, rng):
            self.happened.append(self._number)

    def last(self) -> None:
        """With some seeds one more, from which everything has to come back by itself: nobody takes it away again."""
        self._number = 0
        rng = Random(f"{self._cluster.seed} fault {self._number}")
        if len(self._cluster.brokers) >= 3 and rng.random() < 0.5 and self._is_planned():
            self._stories.tell(LAST, rng)
            self.happened.append(self._number)

    def _is_planned(self) -> bool:
        return self._planned is None or self._number in self._planned

    def _story(self, kind: str, rng: Random) -> bool:
        return not self._is_fragile() and self._stories.tell(kind, rng)

    # -- single ones ---------------------------------------------------------------------------------------------------

    def _single(self, kind: str, rng: Random) -> bool:
        """Whether it could happen now."""
        cluster = self._cluster
        broker, other = rng.choice(list(cluster.brokers.values())), rng.choice(list(cluster.brokers.values()))
        if kind == "reset":
            cluster.net.break_something()
            cluster.note("a connection breaks")
            return True
        if not is_healthy(broker) or self._is_fragile():
            return False
        if kind == "power":
            return self._power(broker)
        if kind == "disk" and len(self._healthy()) == len(cluster.brokers) > 1:
            code = rng.choice((errno.ENOSPC, errno.EIO))
            which = rng.choice((broker.directory, *broker.log_dirs))
            cluster.note(f"{which.removeprefix(f'{cluster.directory}/')}: {os.strerror(code)}")
            cluster.disk.failing[which] = code
            return True
        if kind == "disk":
            return False
        if kind == "cut":
            if other is broker:
                return False
            cluster.note(f"{broker.host} no longer reaches {other.host}")
            cluster.cut(broker.host, other.host)
            return True
        return self._take_away(kind, broker)

    def _take_away(self, kind: str, broker: SimBroker) -> bool:
        cluster = self._cluster
        if len(cluster.brokers) > 1 and len(self._healthy()) < 2:
            return False
        cluster.note(f"{kind} {broker.host}")
        if kind == "kill":
            broker.kill()
        elif kind == "stop":
            broker.stop()
        elif kind == "pause":
            cluster.runtime.pause(broker.process)
        elif kind == "cut zookeeper":
            cluster.cut(broker.host, ZOOKEEPER)
        elif broker.session is not None:
            cluster.zookeeper.expire(broker.session.session_id)
        return True

    def _healthy(self) -> list[SimBroker]:
        return [each for each in self._cluster.brokers.values() if is_healthy(each)]

    def _power(self, broker: SimBroker) -> bool:
        """What was acknowledged is safe on others only if they are in sync: else losing it is allowed, and no fault."""
        cluster = self._cluster
        for state in self._znodes.states.values():
            safe = [each for each in state.isr if each != broker.id and is_healthy(cluster.brokers[each])]
            if broker.id in state.isr and len(safe) < len(cluster.brokers) - 1:
                return False
        if len(cluster.brokers) > 1 and cluster.net.cut:
            return False
        broker.lose_power()
        cluster.note(f"{broker.host} loses its power, and {cluster.disk.lost_bytes} bytes so far")
        if broker.session is not None and len(cluster.brokers) > 1:
            cluster.zookeeper.expire(broker.session.session_id)
            self._fragile = broker
        return True

    def _is_fragile(self) -> bool:
        """Whether somebody who has lost what was not synced is still in an ISR, or others are not back in theirs."""
        if self._fragile is None:
            return False
        if not self._fragile.serving or self._znodes.unrest() is not None:
            return True
        self._fragile = None
        return False

    def _repair(self, rng: Random) -> None:
        cluster = self._cluster
        cluster.net.watch_delay_ms.clear()
        cluster.disk.failing.clear()
        for broker in cluster.brokers.values():
            if not broker.up:
                if broker.stopped and rng.random() < 0.5:
                    cluster.disk.lose(broker.directory)
                    cluster.note(f"{broker.host}, which had stopped in order, loses its power, which must not harm it")
                cluster.note(f"{broker.host} starts")
                broker.start()
                return
            if broker.process.paused:
                cluster.note(f"{broker.host} goes on")
                cluster.runtime.resume(broker.process)
                return
            if broker.crippled and not self._is_fragile():
                cluster.note(f"{broker.host}'s disk is whole, and it starts again")
                broker.kill()
                broker.start()
                return
        if cluster.net.cut:
            cluster.note("the network is whole")
            cluster.heal()
