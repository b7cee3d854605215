"""Stories, which bring a partition to where a careless leader, election or controller loses records.

A follower falls behind, or everybody does, and then the leader goes; what is decided is not heard of in time.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from controller.zk import paths
from controller.zk.ops import Create, Delete
from controller.zk.payloads import decode_controller, encode_partitions
from log.topic_partition import TopicPartition
from tests.simulation.real.brokers import Cluster, SimBroker
from tests.simulation.real.client import PARTITIONS
from tests.simulation.real.network import Link
from tests.simulation.real.znodes import Znodes

STORIES = (
    "follower behind",
    "follower returns",
    "follower returns",
    "late answer",
    "no way to the controller",
    "one after the other",
    "no answer",
    "absence",
    "all behind",
    "preferred behind",
    "controller moves",
    "blackout",
    "lost answers",
)
LAST = "lost answers"
"""What is told to some at the end, when all is well again."""


def is_healthy(broker: SimBroker) -> bool:
    return broker.serving and not broker.process.paused


class Stories:
    """`take_away(how, broker)` lets a broker go, unless it is the last one."""

    def __init__(self, cluster: Cluster, znodes: Znodes, take_away: Callable[[str, SimBroker], bool]) -> None:
        self._cluster = cluster
        self._znodes = znodes
        self._take_away = take_away

    def tell(self, kind: str, rng: Random) -> bool:
        """Whether it could be told from where things are now."""
        topics = ("queue", "queue", "bank", "table", "__consumer_offsets")
        topic = rng.choice(topics if len(self._cluster.brokers) > 1 else ("queue", "table"))
        partition = TopicPartition(topic, rng.randrange(PARTITIONS))
        told: dict[str, Callable[[TopicPartition, Random], bool]] = {
            "follower behind": self._follower_behind,
            "follower returns": self._follower_returns,
            "late answer": self._late_answer,
            "no way to the controller": self._no_way_to_the_controller,
            "one after the other": self._one_after_the_other,
            "no answer": self._no_answer,
            "absence": self._absence,
            "all behind": self._all_behind,
            "preferred behind": self._preferred_behind,
            "controller moves": self._controller_moves,
            "blackout": self._blackout,
            "lost answers": self._lost_answers,
        }
        return told[kind](partition, rng)

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
        if is_healthy(leader):
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

    def _follower_returns(self, partition: TopicPartition, rng: Random) -> bool:
        """One follower is out of the ISR and is about to catch up, or asks and hears nothing, when the leader goes."""
        leader, followers = self._leader_and_followers(partition)
        if leader is None or not followers:
            return False
        follower = self._first(partition, followers)
        self._cluster.note(
            f"{follower.host} does not follow {leader.host} for {partition} until just before that one goes"
        )
        self._part(leader, follower)
        self._cluster.runtime.run(lambda: follower.id not in self._isr(partition), 4_000)
        self._cluster.runtime.run_for(rng.randint(50, 400))
        self._cluster.heal()
        if rng.random() < 0.7:
            self._ask_in_vain(follower, leader)
        self._cluster.runtime.run(lambda: follower.id in self._isr(partition), rng.randint(100, 1_000))
        self._leave(leader, rng)
        return True

    def _ask_in_vain(self, follower: SimBroker, leader: SimBroker) -> None:
        """The follower connects anew: its first request comes through, and the answer to it does not."""
        net = self._cluster.net

        def links() -> list[Link]:
            return [
                each for each in net.links if (each.client, each.server_process) == (follower.process, leader.process)
            ]

        for link in links():
            link.reset()
        self._cluster.runtime.run(lambda: bool(links()), 1_000)
        self._cluster.cut(leader.host, follower.host)

    def _late_answer(self, partition: TopicPartition, rng: Random) -> bool:
        """A follower is in the ISR again and, before its leader hears of that, behind; then the leader goes."""
        leader, followers = self._leader_and_followers(partition)
        controller = self._controller()
        if leader is None or not followers or controller is None or controller is leader:
            return False
        follower = self._first(partition, followers)
        self._cluster.note(f"{leader.host} does not hear that {follower.host} is in sync again for {partition}")
        self._part(leader, follower)
        self._cluster.runtime.run(lambda: follower.id not in self._isr(partition), 4_000)
        self._cluster.heal()
        self._cluster.runtime.run(lambda: follower.id in self._isr(partition), 1_500)
        self._part(leader, follower)
        self._cluster.cut(controller.host, leader.host)
        self._cluster.runtime.run_for(rng.randint(200, 1_200))
        self._leave(leader, rng)
        self._cluster.heal()
        return True

    def _no_way_to_the_controller(self, partition: TopicPartition, rng: Random) -> bool:
        """The leader can no longer say who is behind: who is, is the controller itself; then the leader goes."""
        leader, followers = self._leader_and_followers(partition)
        controller = self._controller()
        if leader is None or controller is None or controller not in followers:
            return False
        self._cluster.note(f"{leader.host} no longer reaches {controller.host}, which follows it for {partition}")
        self._part(leader, controller)
        self._cluster.runtime.run_for(rng.randint(2_000, 4_000))
        self._leave(leader, rng)
        self._cluster.heal()
        return True

    def _one_after_the_other(self, partition: TopicPartition, rng: Random) -> bool:
        """A leader goes, and the next one before it has heard of the last follower."""
        leader, followers = self._leader_and_followers(partition)
        if leader is None or len(followers) < 2:
            return False
        behind = followers[-1]
        self._cluster.note(f"{behind.host} no longer follows for {partition}, and the others go one after the other")
        for other in (leader, *followers[:-1]):
            self._part(behind, other)
        self._cluster.runtime.run_for(rng.randint(100, 900))
        self._leave(leader, rng)
        self._cluster.runtime.run_for(rng.randint(200, 1_200))
        for other in followers[:-1]:
            self._leave(other, rng)
        self._cluster.heal()
        return True

    def _no_answer(self, partition: TopicPartition, rng: Random) -> bool:
        """The leader is killed as soon as it has written something, which it answers to nobody."""
        leader, _ = self._leader_and_followers(partition)
        if leader is None or not is_healthy(leader):
            return False
        before = self._written(leader, partition)
        self._cluster.runtime.run(lambda: self._written(leader, partition) > before, 1_000)
        self._cluster.runtime.run_for(rng.choice((0, 0, 1, 20)))
        self._cluster.note(f"{leader.host} has written something to {partition}")
        return self._take_away("kill", leader)

    def _absence(self, partition: TopicPartition, rng: Random) -> bool:
        """Somebody is away for some time, and the others go on."""
        leader, followers = self._leader_and_followers(partition)
        if leader is None or not followers:
            return False
        self._cluster.heal()
        follower = rng.choice(followers)
        if not self._take_away(rng.choice(("kill", "stop", "pause")), follower):
            return False
        if not follower.up and follower.session is not None and rng.random() < 0.5:
            self._cluster.zookeeper.expire(follower.session.session_id)
        self._cluster.runtime.run_for(rng.randint(3_000, 7_000))
        return True

    def _first(self, partition: TopicPartition, followers: list[SimBroker]) -> SimBroker:
        """Who of them leads next if it may."""
        order = self._znodes.replicas(*partition)
        return min(followers, key=lambda each: order.index(each.id))

    def _isr(self, partition: TopicPartition) -> tuple[int, ...]:
        state = self._znodes.states.get(paths.partition_state(partition))
        return () if state is None else state.isr

    def _controller(self) -> SimBroker | None:
        node = self._cluster.zookeeper.nodes.get(paths.CONTROLLER)
        found = None if node is None else decode_controller(node.data)
        return None if found is None else self._cluster.brokers[found.broker_id]

    def _written(self, broker: SimBroker, partition: TopicPartition) -> int:
        log = None if broker.server is None else broker.server.log_manager.get_log(partition)
        return -1 if log is None else int(log.log_end_offset)

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
        old = self._controller()
        if old is None:
            return False
        self._cluster.note(f"somebody deletes /controller, and {old.host} hears late of it")
        leader, _ = self._leader_and_followers(partition)
        if leader is not None and leader is not old and rng.random() < 0.7:
            self._take_away(rng.choice(("kill", "expire")), leader)
        self._cluster.runtime.run_for(rng.randint(0, 30))
        self._cluster.net.watch_delay_ms[old.host] = rng.randint(0, 2_000)
        self._cluster.zookeeper.apply(0, Delete(paths.CONTROLLER), watch=False)
        return True

    def _lost_answers(self, partition: TopicPartition, rng: Random) -> bool:
        """Somebody leaves the ISR and comes back; most of what ZooKeeper answers to that is lost."""
        cluster = self._cluster
        leader, followers = self._leader_and_followers(partition)
        followers = [each for each in followers if each is not self._controller()]  # to whom the leader has to come
        if leader is None or not followers:
            return False
        follower = rng.choice(followers)
        cluster.note(f"{follower.host} no longer follows {leader.host}, and ZooKeeper's answers are lost")
        before, cluster.lossy_zookeeper = cluster.lossy_zookeeper, 0.6
        self._part(leader, follower)
        cluster.runtime.run(lambda: follower.id not in self._isr(partition), 3_000)
        cluster.runtime.run_for(rng.randint(50, 300))
        cluster.heal()
        cluster.runtime.run(lambda: follower.id in self._isr(partition), rng.randint(500, 1_500))
        cluster.lossy_zookeeper = before
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
