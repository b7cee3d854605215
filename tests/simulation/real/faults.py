"""What happens to brokers, their network and their ZooKeeper, by one seed.

Single faults that overlap and are mended at some later time; and stories, which bring a partition to where a careless
election loses records: a follower falls behind, or everybody does, and then the leader goes.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from random import Random

from controller.zk import paths
from controller.zk.ops import Create, Delete
from controller.zk.payloads import decode_controller, encode_partitions
from log.topic_partition import TopicPartition
from tests.simulation.real.brokers import ZOOKEEPER, Cluster, SimBroker
from tests.simulation.real.client import PARTITIONS
from tests.simulation.real.znodes import Znodes

SINGLE = ("kill", "stop", "power", "pause", "cut", "cut zookeeper", "expire", "reset", "disk")
STORIES = ("follower behind", "all behind", "preferred behind", "controller moves", "blackout")
WAIT_MS = (50, 1_000)


class Faults:
    """Each has a number, and what the seed draws for a number depends on nothing else: one can be left out."""

    def __init__(self, cluster: Cluster, znodes: Znodes, planned: frozenset[int] | None) -> None:
        self.happened: list[int] = []
        self._cluster = cluster
        self._znodes = znodes
        self._planned = planned
        self._number = 0
        self._fragile: SimBroker | None = None
        """Who lost what was not synced, and may be in an ISR still."""

    def next(self) -> None:
        """Some time, and then a fault or the end of an earlier one."""
        self._number += 1
        rng = Random(f"{self._cluster.seed} fault {self._number}")
        self._cluster.runtime.run_for(rng.randint(*WAIT_MS))
        several = len(self._cluster.brokers) >= 3
        kind = rng.choice(STORIES if several and rng.random() < 0.6 else SINGLE)
        if rng.random() < 0.3 or (kind in STORIES and len(self._healthy()) < 3):
            self._repair()
        elif self._is_planned() and (self._story if kind in STORIES else self._single)(kind, rng):
            self.happened.append(self._number)

    def _is_planned(self) -> bool:
        return self._planned is None or self._number in self._planned

    # -- single ones ---------------------------------------------------------------------------------------------------

    def _single(self, kind: str, rng: Random) -> bool:
        """Whether it could happen now."""
        cluster = self._cluster
        broker, other = rng.choice(list(cluster.brokers.values())), rng.choice(list(cluster.brokers.values()))
        if kind == "reset":
            cluster.net.break_something()
            cluster.note("a connection breaks")
            return True
        if not _is_healthy(broker) or self._is_fragile():
            return False
        if kind == "power":
            return self._power(broker)
        if kind == "disk" and len(self._healthy()) == len(cluster.brokers) > 1:
            code = rng.choice((errno.ENOSPC, errno.EIO))
            cluster.note(f"{broker.host}'s disk: {os.strerror(code)}")
            cluster.disk.failing[broker.directory] = code
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
        return [each for each in self._cluster.brokers.values() if _is_healthy(each)]

    def _power(self, broker: SimBroker) -> bool:
        """What was acknowledged is safe on others only if they are in sync: else losing it is allowed, and no fault."""
        cluster = self._cluster
        for state in self._znodes.states.values():
            safe = [each for each in state.isr if each != broker.id and _is_healthy(cluster.brokers[each])]
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

    def _repair(self) -> None:
        cluster = self._cluster
        cluster.net.watch_delay_ms.clear()
        cluster.disk.failing.clear()
        for broker in cluster.brokers.values():
            if not broker.up:
                cluster.note(f"{broker.host} starts")
                broker.start()
                return
            if broker.process.paused:
                cluster.note(f"{broker.host} goes on")
                cluster.runtime.resume(broker.process)
                return
        if cluster.net.cut:
            cluster.note("the network is whole")
            cluster.heal()

    # -- stories -------------------------------------------------------------------------------------------------------

    def _story(self, kind: str, rng: Random) -> bool:
        """Whether it could be told from where things are now."""
        if self._is_fragile():
            return False
        topic = rng.choice(("queue", "queue", "bank", "work", "__consumer_offsets"))
        partition = TopicPartition(topic, rng.randrange(PARTITIONS))
        tell: dict[str, Callable[[TopicPartition, Random], bool]] = {
            "follower behind": self._follower_behind,
            "all behind": self._all_behind,
            "preferred behind": self._preferred_behind,
            "controller moves": self._controller_moves,
            "blackout": self._blackout,
        }
        return tell[kind](partition, rng)

    def _leader_and_followers(self, partition: TopicPartition) -> tuple[SimBroker | None, list[SimBroker]]:
        state = self._znodes.states.get(paths.partition_state(partition))
        assigned = self._znodes.replicas(*partition)
        if state is None or state.leader < 0:
            return None, []
        brokers = self._cluster.brokers
        return brokers[state.leader], [brokers[each] for each in assigned if each != state.leader]

    def _part(self, one: SimBroker, other: SimBroker) -> None:
        self._cluster.cut(one.host, other.host)
        self._cluster.cut(other.host, one.host)

    def _leave(self, leader: SimBroker, rng: Random) -> None:
        """The leader goes in one way or the other."""
        if _is_healthy(leader):
            self._take_away(rng.choice(("kill", "stop", "pause", "expire", "cut zookeeper")), leader)

    def _follower_behind(self, partition: TopicPartition, rng: Random) -> bool:
        """One follower is out of the ISR, or about to be, when the leader goes."""
        leader, followers = self._leader_and_followers(partition)
        if leader is None or not followers:
            return False
        follower = rng.choice(followers)
        self._cluster.note(f"{follower.host} no longer follows {leader.host} for {partition}, which then goes")
        self._part(leader, follower)
        self._cluster.runtime.run_for(rng.randint(300, 4_000))
        self._leave(leader, rng)
        return True

    def _all_behind(self, partition: TopicPartition, rng: Random) -> bool:
        """What the leader has last, nobody has when it goes."""
        leader, followers = self._leader_and_followers(partition)
        if leader is None:
            return False
        self._cluster.note(f"nobody follows {leader.host} any more for {partition}, and then it goes")
        for follower in followers:
            self._part(leader, follower)
        self._cluster.runtime.run_for(rng.randint(50, 1_500))
        self._leave(leader, rng)
        self._cluster.runtime.run_for(rng.randint(50, 1_500))
        self._cluster.heal()
        return True

    def _preferred_behind(self, partition: TopicPartition, rng: Random) -> bool:
        """Whoever should lead is there and behind when it is asked for."""
        assigned = self._znodes.replicas(*partition)
        if not assigned:
            return False
        preferred = self._cluster.brokers[assigned[0]]
        self._cluster.note(f"{preferred.host}, who should lead {partition}, loses its session and falls behind")
        for other in self._cluster.brokers.values():
            if other is not preferred:
                self._part(preferred, other)
        self._take_away("expire", preferred)
        self._cluster.runtime.run_for(rng.randint(300, 3_000))
        if paths.PREFERRED_ELECTION not in self._cluster.zookeeper.nodes:
            order = Create(paths.PREFERRED_ELECTION, encode_partitions([partition]))
            self._cluster.zookeeper.apply(0, order, watch=False)
        self._cluster.runtime.run_for(rng.randint(50, 500))
        if rng.random() < 0.5:
            self._cluster.heal()
        return True

    def _controller_moves(self, partition: TopicPartition, rng: Random) -> bool:
        """Somebody deletes `/controller`; the old one hears of it late, and elects meanwhile."""
        node = self._cluster.zookeeper.nodes.get(paths.CONTROLLER)
        found = None if node is None else decode_controller(node.data)
        if found is None:
            return False
        old = self._cluster.brokers[found.broker_id]
        self._cluster.note(f"somebody deletes /controller, and {old.host} hears late of it")
        leader, _ = self._leader_and_followers(partition)
        if leader is not None and leader is not old and rng.random() < 0.7:
            self._take_away(rng.choice(("kill", "expire")), leader)
        self._cluster.runtime.run_for(rng.randint(0, 30))
        self._cluster.net.watch_delay_ms[old.host] = rng.randint(0, 2_000)
        self._cluster.zookeeper.apply(0, Delete(paths.CONTROLLER), watch=False)
        return True

    def _blackout(self, partition: TopicPartition, rng: Random) -> bool:
        """All at once; what was written is there when they come back."""
        self._cluster.note("all brokers are killed")
        for broker in self._cluster.brokers.values():
            if broker.up:
                broker.kill()
        self._cluster.runtime.run_for(rng.randint(10, 4_000))
        for broker in self._cluster.brokers.values():
            if rng.random() < 0.7:
                broker.start()
        return True


def _is_healthy(broker: SimBroker) -> bool:
    return broker.serving and not broker.process.paused
