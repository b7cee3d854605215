"""The controller: elected among the brokers, it decides who leads which partition and tells everyone.

Every broker runs this. All work happens in events on one thread; ZooKeeper watches, broker answers and request
handlers only enqueue. What there is to do stands in `topic_changes`, `topic_deletion`,
`broker_changes`, `isr_changes`, `reassignment`, `election_requests` and `features`; the two state machines are executed
for all of them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from controller import gauges
from controller.broker_changes import BrokerChanges
from controller.broker_channels import BrokerChannels
from controller.config import ControllerConfig
from controller.context import ControllerContext
from controller.core import ControllerCore
from controller.election_requests import LeaderElections
from controller.event_manager import ControllerEventManager, ControllerState, Event
from controller.features import AwaitFeatureVersion, Features
from controller.incoming_requests import ControllerRequests
from controller.isr_changes import IsrChanges
from controller.missed_returns import make_up_for
from controller.partition_state_machine import PartitionStateMachine
from controller.reassignment import Reassignment
from controller.registration import Reregistration
from controller.replica_state_machine import ReplicaStateMachine
from controller.request_batch import RequestBatch, ResponseHandlers
from controller.states import PartitionReplica
from controller.topic_changes import TopicChanges
from controller.topic_deletion import TopicDeletion
from controller.zk import paths
from controller.zk.access import ControllerMovedError
from controller.zk.client import ZkClient
from controller.zk.payloads import BrokerInfo, PayloadError
from controller.zk.session import ChildHandler, DataHandler, SessionExpiredError, SessionHandler
from log.topic_partition import TopicPartition
from network.protocol.errors import ErrorCode
from network.protocol.messages.leader_and_isr import LeaderAndIsrResponse
from network.protocol.messages.stop_replica import StopReplicaResponse
from network.protocol.messages.update_metadata import UpdateMetadataResponse
from timer.chance import Chance
from timer.metrics import NULL_METRICS
from timer.worker import Workers

if TYPE_CHECKING:
    from timer.clock import Clock
    from timer.metrics import Metrics
    from timer.scheduler import ScheduledTask, Scheduler

logger = logging.getLogger(__name__)

NO_CONTROLLER = -1
FIRST_REBALANCE_DELAY_MS = 5000
_SESSION_HANDLER = "controller-session-handler"


class Controller(ControllerRequests):
    """One broker's controller component. Public methods may be called from any thread and do not block.

    Callbacks of requests are called exactly once, on the event thread or, if the request is dropped because the
    session expired, on the session's thread.
    """

    def __init__(
        self,
        broker_info: BrokerInfo,
        zk: ZkClient,
        channels: BrokerChannels,
        clock: Clock,
        scheduler: Scheduler,
        config: ControllerConfig,
        metrics: Metrics = NULL_METRICS,
        *,
        chance: Chance,
        on_new_broker_epoch: Callable[[int], None] = lambda epoch: None,
        await_feature_version: AwaitFeatureVersion | None = None,
        workers: Workers | None = None,
    ) -> None:
        """`on_new_broker_epoch` gets the epoch when the broker is registered again after a session expired."""
        self.broker_info = broker_info
        self._zk = zk
        self._channels = channels
        self._clock = clock
        self._scheduler = scheduler
        self._config = config
        self._on_new_broker_epoch = on_new_broker_epoch
        self._events = ControllerEventManager(clock, self._event_failed, metrics, zk.session.waited_ns, workers)
        self.context = context = ControllerContext()
        batch = RequestBatch(
            config,
            context,
            channels,
            ResponseHandlers(
                self._leader_and_isr_answered, self._update_metadata_answered, self._stop_replica_answered
            ),
        )
        unclean = metrics.meter("kafka.controller", "ControllerStats", "UncleanLeaderElectionsPerSec")
        self._core = core = ControllerCore(
            config,
            context,
            zk,
            channels,
            batch,
            PartitionStateMachine(config, context, zk, batch, lambda _: unclean.mark()),
            ReplicaStateMachine(config, context, zk, batch),
            self._events.put,
            chance,
        )
        self._topics = TopicChanges(core)
        self._deletion = TopicDeletion(core, self._topics.unwatch)
        self._reassignment = Reassignment(core, self._deletion)
        self._brokers = BrokerChanges(core, self._deletion, self._reassignment)
        self._isr = IsrChanges(core, self._reassignment)
        self._elections = LeaderElections(core)
        self._features = Features(core, await_feature_version)
        self._registration = Reregistration(self._register, self._after_new_session, scheduler)
        self._active_id = NO_CONTROLLER
        self._rebalance_task: ScheduledTask | None = None
        self._closed = False
        gauges.register(metrics, lambda: self.is_active, context, lambda: self._events.state)

    # -- life ----------------------------------------------------------------------------------------------------------

    def startup(self, *, own_thread: bool = True) -> None:
        """Watch `/controller` and run for election. Without `own_thread` somebody has to call `step()`."""
        self._zk.session.register_session_handler(
            SessionHandler(_SESSION_HANDLER, self._before_new_session, self._after_new_session)
        )
        self._core.enqueue("Startup", ControllerState.CONTROLLER_CHANGE, self._startup)
        if own_thread:
            self._events.start()

    def step(self) -> float | None:
        """Process one event; None if there was none."""
        return self._events.step()

    def shutdown(self) -> None:
        """Resign without touching `/controller`, which goes with the session."""
        if self._closed:
            return
        self._closed = True
        self._zk.session.unregister_session_handler(_SESSION_HANDLER)
        self._events.close(Event("ShutdownEventThread", ControllerState.CONTROLLER_SHUTDOWN, self._expire))
        self._zk.session.unregister_data_handler(paths.CONTROLLER)

    @property
    def is_active(self) -> bool:
        """Whether this broker is the controller, as far as it knows: elected, not just named by `/controller`."""
        return self.context.epoch > 0 and self._active_id == self._config.broker_id

    @property
    def events(self) -> ControllerEventManager:
        """Its queue; for those who look on."""
        return self._events

    @property
    def active_controller_id(self) -> int:
        """The controller's id as last seen in ZooKeeper; -1 if there was none."""
        return self._active_id

    @property
    def epoch(self) -> int:
        """The controller epoch of this term; 0 if not controller."""
        return self.context.epoch

    # -- election, failover, resignation -------------------------------------------------------------------------------

    def _startup(self) -> None:
        self._zk.session.register_data_handler(
            DataHandler(
                paths.CONTROLLER,
                on_created=self._controller_changed,
                on_changed=self._controller_changed,
                on_deleted=lambda: self._core.enqueue("Reelect", ControllerState.CONTROLLER_CHANGE, self._reelect),
            )
        )
        self._zk.exists(paths.CONTROLLER)
        self._elect()

    def _controller_changed(self) -> None:
        self._core.enqueue("ControllerChange", ControllerState.CONTROLLER_CHANGE, self._maybe_resign)

    def _reelect(self) -> None:
        self._maybe_resign()
        self._elect()

    def _elect(self) -> None:
        config, context = self._config, self.context
        self._active_id = self._read_controller_id()
        if self._active_id != NO_CONTROLLER:
            logger.debug("Broker %d is controller, not running for election", self._active_id)
            return
        try:
            context.epoch, context.epoch_zk_version = self._zk.register_controller(
                config.broker_id, self._clock.wall_ms()
            )
            self._active_id = config.broker_id
            logger.info("Broker %d is the controller now, epoch %d", config.broker_id, context.epoch)
            self._failover()
        except ControllerMovedError as error:
            logger.info("Not controller: %s", error)
            self._maybe_resign()
        except SessionExpiredError:
            raise
        except Exception:
            logger.exception("Giving up the controllership: becoming controller failed")
            self._move_controller()

    def _failover(self) -> None:
        """Take over: handlers first, then reads, so that no change in between is missed."""
        zk, context, core = self._zk, self.context, self._core
        self._features.setup()
        self._register_handlers()
        zk.exists(paths.PREFERRED_ELECTION)
        zk.exists(paths.REASSIGN_PARTITIONS)
        zk.delete_log_dir_events(zk.log_dir_event_names(), core.fence)
        zk.delete_isr_changes(zk.isr_change_names(), core.fence)
        context.brokers = self._brokers.read_all()
        make_up_for(context, zk, self._topics.load())
        self._brokers.watch(context.brokers)
        self._channels.start(context.brokers.values())
        waiting, ineligible = self._pending_deletions()
        self._deletion.init(waiting, ineligible)
        core.send_update_metadata()
        core.replicas.startup()
        core.partitions.startup()
        started = self._reassignment.from_znode()
        self._reassignment.resume(lambda partition, _: partition not in started)
        self._deletion.resume()
        self._elections.pending_at_failover()
        if self._config.auto_leader_rebalance_enable:
            self._schedule_rebalance(FIRST_REBALANCE_DELAY_MS)

    def _pending_deletions(self) -> tuple[set[str], set[str]]:
        """Topics queued for deletion, and topics that cannot be deleted now."""
        context = self.context
        queued = self._zk.topics_to_delete()
        unknown = queued - context.topics
        if unknown:
            self._zk.delete_topic_markers(sorted(unknown), self._core.fence)
        ineligible = {partition.topic for partition in context.reassigning}
        for topic in queued - unknown:
            replicas: list[PartitionReplica] = context.replicas_of_topic(topic)
            if not all(context.is_replica_online(item.replica, item.partition) for item in replicas):
                ineligible.add(topic)
        return queued - unknown, ineligible

    def _register_handlers(self) -> None:
        session, state = self._zk.session, ControllerState
        for path, name, kind, process in (
            (paths.BROKER_IDS, "BrokerChange", state.BROKER_CHANGE, self._brokers.brokers_changed),
            (paths.TOPICS, "TopicChange", state.TOPIC_CHANGE, self._topics.topics_changed),
            (paths.DELETE_TOPICS, "TopicDeletion", state.TOPIC_DELETION, self._topic_deletion_requested),
            (paths.LOG_DIR_EVENTS, "LogDirEventNotification", state.LOG_DIR_CHANGE, self._brokers.log_dirs_failed),
            (paths.ISR_CHANGES, "IsrChangeNotification", state.ISR_CHANGE, self._isr.notified),
        ):
            session.register_child_handler(ChildHandler(path, self._putter(name, kind, process)))
        session.register_data_handler(
            DataHandler(
                paths.PREFERRED_ELECTION,
                on_created=self._putter(
                    "ReplicaLeaderElection(znode)", state.MANUAL_LEADER_BALANCE, self._elections.from_znode
                ),
            )
        )
        session.register_data_handler(
            DataHandler(
                paths.REASSIGN_PARTITIONS,
                on_created=self._putter(
                    "ZkPartitionReassignment", state.ALTER_PARTITION_REASSIGNMENT, self._reassignment.from_znode
                ),
            )
        )

    def _topic_deletion_requested(self) -> None:
        self._topics.deletion_requested(self._deletion)

    def _resign(self) -> None:
        """Stop everything and forget everything; `/controller` and the other brokers are left alone."""
        session = self._zk.session
        if self.context.epoch:
            logger.info("Resigning as controller of epoch %d", self.context.epoch)
        session.unregister_child_handler(paths.ISR_CHANGES)
        session.unregister_data_handler(paths.REASSIGN_PARTITIONS)
        session.unregister_data_handler(paths.PREFERRED_ELECTION)
        session.unregister_child_handler(paths.LOG_DIR_EVENTS)
        self._brokers.stop_watching()
        if self._rebalance_task is not None:
            self._rebalance_task.cancel()
            self._rebalance_task = None
        self._reassignment.stop_watching()
        session.unregister_child_handler(paths.TOPICS)
        self._topics.stop_watching()
        session.unregister_child_handler(paths.DELETE_TOPICS)
        session.unregister_child_handler(paths.BROKER_IDS)
        self._channels.shutdown()
        self.context.reset()

    def _maybe_resign(self) -> None:
        was_active = self.is_active
        self._zk.exists(paths.CONTROLLER)
        self._active_id = self._read_controller_id()
        if not was_active or self.is_active:
            return
        fence = self.context.epoch_zk_version
        self._resign()
        try:
            # Without an election since ours, `/controller` was overwritten by hand: nobody acts on that. Out with it.
            self._zk.delete_controller(fence)
        except ControllerMovedError:
            return
        self._active_id = NO_CONTROLLER

    def _move_controller(self) -> None:
        """Resign and delete `/controller`, so that another broker can be elected."""
        self._active_id = self._read_controller_id()
        if not self.is_active:
            logger.warning("Not controller any more, nothing to give up")
            return
        fence = self.context.epoch_zk_version
        self._active_id = NO_CONTROLLER
        self._resign()
        try:
            self._zk.delete_controller(fence)
        except ControllerMovedError:
            logger.warning("The controllership had been taken over already")

    def _read_controller_id(self) -> int:
        try:
            controller = self._zk.controller()
        except PayloadError:
            logger.exception("The content of %s cannot be read", paths.CONTROLLER)
            return NO_CONTROLLER
        return NO_CONTROLLER if controller is None else controller.broker_id

    # -- sessions ------------------------------------------------------------------------------------------------------

    def update_broker_info(self, broker_info: BrokerInfo) -> None:
        """This broker is reached by other addresses from now on. Raises ZkError; a session that is made later registers
        the new ones."""
        self.broker_info = broker_info
        self._zk.update_broker(broker_info, self._config.registration_json_version, self._clock.wall_ms())

    def _before_new_session(self) -> None:
        """On the session's thread: no event may go on deciding when the new session begins."""
        expire = Event("Expire", ControllerState.CONTROLLER_CHANGE, self._expire)
        self._events.clear_and_put(expire)
        self._events.await_start(expire)

    def _expire(self) -> None:
        self._active_id = NO_CONTROLLER
        self._registration.stop()
        self._resign()

    def _after_new_session(self) -> None:
        self._core.enqueue("RegisterBrokerAndReelect", ControllerState.CONTROLLER_CHANGE, self._register_and_reelect)

    def _register_and_reelect(self) -> None:
        epoch = self._registration.attempt()
        if epoch is not None:
            self._on_new_broker_epoch(epoch)
            self._reelect()

    def _register(self) -> int:
        version = self._config.registration_json_version
        return self._zk.register_broker(self.broker_info, version, self._clock.wall_ms())

    # -- answers of brokers (on channel threads) -----------------------------------------------------------------------

    def _leader_and_isr_answered(self, broker: int, response: LeaderAndIsrResponse) -> None:
        self._core.enqueue(
            f"LeaderAndIsrResponseReceived({broker})",
            ControllerState.LEADER_AND_ISR_RESPONSE,
            lambda: self._brokers.leader_and_isr_answered(broker, response),
        )

    def _update_metadata_answered(self, broker: int, response: UpdateMetadataResponse) -> None:
        if response.error_code != ErrorCode.NONE:
            logger.error("Broker %d refused UpdateMetadata: %s", broker, ErrorCode.of(response.error_code).name)

    def _stop_replica_answered(
        self, broker: int, response: StopReplicaResponse, deleted: frozenset[TopicPartition]
    ) -> None:
        codes = {
            partition: response.error_code or error.error_code
            for error in response.partition_errors
            if (partition := TopicPartition(error.topic_name, error.partition_index)) in deleted
        }
        if codes:
            self._core.enqueue(
                f"TopicDeletionStopReplicaResponseReceived({broker})",
                ControllerState.TOPIC_DELETION,
                lambda: self._replicas_deleted(broker, codes),
            )

    def _replicas_deleted(self, broker: int, codes: Mapping[TopicPartition, int]) -> None:
        if not self.is_active:
            return
        started = self.context.topics_deletion_started
        failed = [item for item, code in codes.items() if item.topic in started and code != ErrorCode.NONE]
        done = [item for item, code in codes.items() if item.topic in started and code == ErrorCode.NONE]
        if failed:
            self._deletion.fail_replicas(PartitionReplica(item, broker) for item in failed)
        if done:
            self._deletion.complete_replicas(PartitionReplica(item, broker) for item in done)

    # -- rebalancing ---------------------------------------------------------------------------------------------------

    def _schedule_rebalance(self, delay_ms: int) -> None:
        self._rebalance_task = self._scheduler.schedule_once(
            "auto-leader-rebalance-task",
            lambda: self._core.enqueue(
                "AutoPreferredReplicaLeaderElection", ControllerState.AUTO_LEADER_BALANCE, self._rebalance
            ),
            delay_ms,
        )

    def _rebalance(self) -> None:
        if not self.is_active:
            return
        try:
            self._elections.rebalance()
        finally:
            self._schedule_rebalance(self._config.leader_imbalance_check_interval_seconds * 1000)

    # -- events --------------------------------------------------------------------------------------------------------

    def _putter(self, name: str, state: ControllerState, process: Callable[[], object]) -> Callable[[], None]:
        return lambda: self._put_if_active(name, state, process)

    def _event_failed(self, event: Event, error: Exception) -> None:
        if isinstance(error, ControllerMovedError):
            logger.info("Controller moved to another broker while processing %s: %s", event, error)
            try:
                self._maybe_resign()
            except SessionExpiredError:
                logger.info("The session expired meanwhile")
                self._expire()
        elif isinstance(error, SessionExpiredError):
            # A write may have been applied without this controller knowing it: what it remembers is worth nothing
            # any more, and nothing may be answered from it until the new session begins.
            logger.info("Session expired while processing %s: no longer controller", event)
            self._expire()
        else:
            logger.error("Error processing %s", event, exc_info=error)
