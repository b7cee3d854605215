"""One broker: what is made of what, and the order in which it starts and stops.

Start: ZooKeeper, cluster id, broker id, dynamic configs, logs (recovery), metadata cache, sockets bound, replica
manager, registration (from here on the controller may know of this broker), controller component, coordinators,
config listener, and last the sockets are served. Stop: controlled shutdown, then the same backwards; the ZooKeeper
session ends last but one, so that the broker stays registered while it still flushes.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from functools import partial

from broker.cluster.controlled_shutdown import controlled_shutdown
from broker.cluster.controller_channel import ControllerChannel, connector
from broker.cluster.feature_listener import FeatureListener
from broker.cluster.metadata_cache import LiveBroker, MetadataCache
from broker.config.admin import ConfigAdmin
from broker.config.change_listener import DynamicBrokerConfig
from broker.config.honoured import warnings
from broker.config.kafka_config import KafkaConfig
from broker.config.keys import ConfigError
from broker.config.reconfiguration import Reconfiguration
from broker.config.stored_passwords import PasswordRotation, StoredPasswords
from broker.config.view import ConfigView
from broker.config.wiring import listen_for_configs, listen_for_group_configs
from broker.fetching.conversion_queue import ConversionQueue
from broker.fetching.fetch_contexts import FetchManager
from broker.fetching.fetch_session import FetchSessionCache
from broker.groups.wiring import make_group_coordinator
from broker.http.console.internals.requests import RequestWatch
from broker.http.health import Health
from broker.http.wiring import log_dirs_check, metadata_check, start_http, workers_check, zookeeper_check
from broker.logging.request_log import request_log
from broker.metrics import TICK_MS, MetricsRegistry
from broker.quotas.quota_call import QuotaCall
from broker.quotas.quotas import Quotas
from broker.registration import broker_id_on_disk, register_when_free
from broker.replication.become_leader_or_follower import RoleChanges
from broker.replication.log_dirs.failure_queue import LogDirFailures
from broker.replication.replica_manager import ReplicaManager
from broker.replication.wiring import make_replica_manager
from broker.requests.context import BrokerContext, Features
from broker.requests.dispatcher import Dispatcher, noted_call
from broker.requests.handlers import import_handlers
from broker.requests.inline_apis import inline_rule
from broker.requests.registry import ApiHandler, handlers_for
from broker.security.acl_authorizer import AclAuthorizer
from broker.security.authorizers import OwnAuthorizer, make_authorizer, may_decide_inline
from broker.security.certificate_watch import CHECK_DELAY_MS, CHECK_MS, CertificateWatch
from broker.security.listener_trial import ListenerTrial
from broker.security.listeners import ListenerSecurity
from broker.security.peers import PeerSecurity
from broker.security.sasl.wiring import make_sasl
from broker.security.scram_credentials import ScramCredentials
from broker.security.tokens.wiring import listen_for_tokens, make_tokens
from broker.security.zookeeper_login import zookeeper_login
from broker.security.zookeeper_tls import zookeeper_tls
from broker.server_gauges import register_server_gauges
from broker.server_settings import (
    broker_info,
    cleaner_config,
    controller_config,
    log_config,
    log_manager_settings,
    producer_state_config,
    socket_server_config,
)
from broker.stopping import Started, stop_quietly
from broker.telemetry.wiring import listen_for_subscriptions, make_telemetry
from broker.topics.wiring import make_topic_admin
from broker.transactions.producer_id_sources import make_producer_id_source
from broker.transactions.producer_ids import ProducerIdManager
from broker.transactions.wiring import Transactions
from controller import broker_connection
from controller.channel_manager import ChannelManager
from controller.controller import Controller
from controller.zk.client import ZkClient
from controller.zk.kazoo_session import KazooSession
from controller.zk.payloads import EndPoint
from log.management.manager import LogManager
from log.records.conversion_process import IS_POSSIBLE
from network.server.inline import NEVER
from network.server.socket_server import SocketServer
from timer.chance import Chance, SystemChance
from timer.clock import Clock, SystemClock
from timer.news import News
from timer.scheduler import BackgroundScheduler
from timer.worker import Workers

logger = logging.getLogger(__name__)

_ZOOKEEPER = "ZooKeeper client"


class BrokerState(IntEnum):
    NOT_RUNNING = 0
    STARTING = 1
    RECOVERY = 2
    RUNNING = 3
    PENDING_CONTROLLED_SHUTDOWN = 6
    SHUTTING_DOWN = 7


class BrokerServer:
    """`startup`, `shutdown`. A start that fails has stopped again what it had started."""

    def __init__(
        self,
        config: KafkaConfig,
        clock: Clock | None = None,
        must_stop: Callable[[], bool] = lambda: False,
        chance: Chance | None = None,
    ) -> None:
        """`must_stop` is asked while the start waits for others."""
        self.config = config
        self._must_stop = must_stop
        self.clock = clock or SystemClock()
        self.chance = chance or SystemChance()
        self.metrics = MetricsRegistry()
        self._started_ms = self.clock.wall_ms()
        self.state = BrokerState.NOT_RUNNING
        self.context = BrokerContext()
        self.context.peer_security = PeerSecurity(config, self.clock)
        self._stopped = threading.Event()
        self._stop_lock = threading.Lock()
        self._parts = Started()
        self._started = False
        self.health = Health()
        self.request_watch = RequestWatch(request_log)
        self.metrics.gauge("kafka.server", "KafkaServer", "BrokerState", lambda: float(self.state))

    # ------------------------------------------------------------------ start

    def startup(self) -> None:
        """Start and serve. Raises what went wrong, after stopping again."""
        if self.state is not BrokerState.NOT_RUNNING:
            raise RuntimeError("the broker has been started")
        try:
            self._startup()
        except BaseException:
            self._stop_everything()
            raise
        self._started = True

    def _startup(self) -> None:
        self.state = BrokerState.STARTING
        config, context, clock, metrics = self.config, self.context, self.clock, self.metrics
        self._warn()
        context.config, context.clock, context.chance, context.metrics = config, clock, self.chance, metrics
        context.client_faults = News(clock)
        context.workers = Workers(metrics, after_step=context.action_queue.run)
        context.telemetry = make_telemetry(context)
        self._start_http()
        import_handlers()

        self.scheduler = BackgroundScheduler(config.get_int("background.threads"), clock, workers=context.workers)
        self.session = self._connect_zookeeper()
        self.health.add("ZooKeeper", zookeeper_check(self.session))
        self.zk = context.zk = ZkClient(self.session)
        self._parts.add(_ZOOKEEPER, self.zk.close)
        self.zk.create_startup_paths()
        context.cluster_id = self.zk.create_or_get_cluster_id(self.chance)
        self._determine_broker_id()
        context.broker_id = config.broker_id
        self.passwords = StoredPasswords(config, self.chance)
        self.dynamic_config = DynamicBrokerConfig(config, self.passwords)
        self.dynamic_config.load(self.zk)
        self.scheduler.startup()
        self.scheduler.schedule("metrics-tick", metrics.tick, TICK_MS, TICK_MS)

        self.state = BrokerState.RECOVERY
        self.log_dir_failures = LogDirFailures(self._handle_log_dir_failure, clock, context.workers)
        self._start_log_manager()

        context.metadata_cache = MetadataCache(config.broker_id)
        self.health.add("metadata", metadata_check(context.metadata_cache))
        handlers = handlers_for(config)
        context.served_versions = {key: (row.min_version, row.max_version) for key, row in handlers.items()}
        register_server_gauges(
            metrics,
            broker_id=config.broker_id,
            cluster_id=context.cluster_id,
            cache=context.metadata_cache,
            started_ms=self._started_ms,
        )
        self._follow_features()
        self._make_socket_server(handlers)
        self.controller_channel = self._make_controller_channel()
        self._parts.add("controller channel", self.controller_channel.shutdown)
        self.replica_manager = self._make_replica_manager()
        self.replica_manager.startup()
        metrics.before_read(self.replica_manager.metrics.flush)
        self.log_dir_failures.start()
        self._parts.add("replica manager", self.replica_manager.shutdown)
        self._parts.add("log directory failures", self.log_dir_failures.shutdown)

        self._register()
        self.controller = self._make_controller()
        context.controller = self.controller
        self.controller.startup()
        self._start_admin()
        self._start_coordinators()
        self._start_config_listener()
        self._parts.add("background scheduler", self.scheduler.shutdown)

        context.start_gate.close(self.scheduler)
        self.socket_server.start()
        self._parts.add("socket server", self.socket_server.shutdown)
        self.state = BrokerState.RUNNING
        logger.info("broker %d is running in cluster %s", config.broker_id, context.cluster_id)

    def _make_socket_server(self, handlers: Mapping[int, ApiHandler]) -> None:
        self.scram_credentials = ScramCredentials()
        self.context.tokens = make_tokens(self.context, self.scheduler)
        sasl = make_sasl(self.context, self.scheduler, self.scram_credentials)
        self.listener_security = ListenerSecurity(self.config, sasl)
        self.dynamic_config.on_every_change += [self.listener_security.reload, self.context.peer_security.reload]
        watch = CertificateWatch(self.listener_security, self.clock, self.metrics)
        self.scheduler.schedule("certificate-expiry", watch.check, CHECK_DELAY_MS, CHECK_MS)
        self.dynamic_config.on_every_change.append(watch.check)
        self.dispatcher = Dispatcher(self.context, handlers)
        self.socket_server = SocketServer(
            socket_server_config(self.config, self.listener_security),
            self.dispatcher.handle,
            self.clock,
            self.metrics,
            inline=inline_rule(self.context) if may_decide_inline(self.config) else NEVER,
            request_log=self.request_watch.current,
        )

    def _start_http(self) -> None:
        self.health.add("broker state", self._state_problem)
        self.health.add("registration", self._registration_problem)
        self.health.add("background threads", workers_check(self.context.workers))
        console = None
        if self.config["odradek.http.port"] is not None and self.config["odradek.console.access"] != "off":
            from broker.http.console.wiring import make_console  # only a broker that shows it loads it

            console = make_console(self)
        telemetry = self.context.telemetry
        self.http = start_http(
            self.config,
            self.metrics,
            self.health,
            None if console is None else console.handle,
            None if telemetry is None else telemetry.series.lines,
        )
        if self.http is not None:
            logger.info("metrics and health are served on port %d", self.http.port)
            if console is not None:
                self._parts.add("console", console.close)
            self._parts.add("HTTP server", self.http.shutdown)

    def _state_problem(self) -> str | None:
        return None if self.state is BrokerState.RUNNING else self.state.name.lower()

    def _registration_problem(self) -> str | None:
        return None if self.context.broker_epoch >= 0 else "not registered"

    def _warn(self) -> None:
        """Of what an operator may take for granted and does not have."""
        for line in warnings(self.config.originals):
            logger.warning("%s", line)
        for endpoint in self.config.listeners:
            if endpoint.warning is not None:
                logger.warning("%s", endpoint.warning)

    def _connect_zookeeper(self) -> KazooSession:
        config = self.config
        timeout = config["zookeeper.connection.timeout.ms"]
        secure = config.get_bool("zookeeper.set.acl")
        tls = zookeeper_tls(config)
        is_known = tls is not None and tls.authenticates
        session = KazooSession(
            config.get_str("zookeeper.connect"),
            session_timeout_ms=config.get_int("zookeeper.session.timeout.ms"),
            connection_timeout_ms=timeout,
            max_in_flight=config.get_int("zookeeper.max.in.flight.requests"),
            secure_acls=secure,
            tls=tls,
            client_options=zookeeper_login(needed=secure and not is_known),
            clock=self.clock,
            metrics=self.metrics,
            workers=self.context.workers,
        )
        session.start()
        return session

    def _determine_broker_id(self) -> None:
        """The configured id, else the one in `meta.properties`, else a new one from ZooKeeper."""
        config = self.config
        if config.broker_id < 0:
            found = broker_id_on_disk(config.log_dirs)
            if found is None:
                found = self.zk.generate_broker_id(config.get_int("reserved.broker.max.id"))
            config.set_broker_id(found)

    def _start_log_manager(self) -> None:
        config = self.config
        topics = sorted(self.zk.topic_names())
        known = self.zk.topic_configs(topics)  # in one go, for the logs found on disk
        self.log_manager = LogManager(
            config.log_dirs,
            default_config=log_config(config),
            topic_configs=lambda topic: known[topic] if topic in known else self.zk.topic_config(topic),
            broker_id=config.broker_id,
            cluster_id=self.context.cluster_id,
            clock=self.clock,
            scheduler=self.scheduler,
            chance=self.chance,
            metrics=self.metrics,
            settings=log_manager_settings(config),
            producer_config=producer_state_config(config),
            cleaner_config=cleaner_config(config),
            on_dir_failure=self.log_dir_failures.on_failure,
            workers=self.context.workers,
        )
        self.log_manager.startup()
        self.health.add("log directories", log_dirs_check(self.log_manager))
        known.clear()  # what is made from now on asks for what holds then
        self._parts.add("log manager", self.log_manager.shutdown)

    def _follow_features(self) -> None:
        def publish(features: Features) -> None:
            self.context.features = features

        self.feature_listener = FeatureListener(self.zk, publish, _halt, self.clock, self.context.workers)
        if controller_config(self.config).uses_features:
            self.feature_listener.start()
            self._parts.add("feature listener", self.feature_listener.close)

    def _await_features(self, epoch: int) -> None:
        timeout_ms = self.config["zookeeper.connection.timeout.ms"] or self.config["zookeeper.session.timeout.ms"]
        self.feature_listener.await_epoch(epoch, timeout_ms)

    def _make_controller_channel(self) -> ControllerChannel:
        config = self.config
        channel = ControllerChannel(
            f"broker-{config.broker_id}-to-controller-alter-partition-channel-manager",
            self.context.metadata_cache,
            config.control_plane_listener_name or config.inter_broker_listener_name,
            self.clock,
            connector(
                str(config.broker_id),
                self.clock,
                config.get_int("controller.socket.timeout.ms"),
                self.context.peer_security.to_controller,
            ),
            workers=self.context.workers,
        )
        channel.start()
        return channel

    def _make_replica_manager(self) -> ReplicaManager:
        context = self.context
        manager = make_replica_manager(
            self.config,
            clock=self.clock,
            scheduler=self.scheduler,
            log_manager=self.log_manager,
            metadata_cache=context.metadata_cache,
            metrics=self.metrics,
            action_queue=context.action_queue,
            zk=self.zk,
            channel=self.controller_channel,
            broker_epoch=lambda: context.broker_epoch,
            workers=context.workers,
            wrap=context.peer_security.inter_broker,
        )
        context.replica_manager = manager
        context.role_changes = RoleChanges(manager)
        slots = self.config.get_int("max.incremental.fetch.session.cache.slots")
        context.fetch_manager = FetchManager(FetchSessionCache(slots, self.clock, self.chance, self.metrics))
        context.fetch_max_bytes = self.config.get_int("fetch.max.bytes")
        if IS_POSSIBLE and self.config.get_bool("odradek.log.message.downconversion.process"):
            conversions = ConversionQueue(self.clock, context.workers)
            context.run_conversion = conversions.run
            self._parts.add("down-conversion", conversions.shutdown)
        return manager

    def _register(self) -> None:
        config = self.config
        ports = {endpoint.listener_name: self.bound_port(endpoint.listener_name) for endpoint in config.listeners}
        self.broker_info = broker_info(config, ports)
        endpoints = {each.listener_name: (each.host, each.port) for each in self.broker_info.endpoints}
        self.context.metadata_cache.begin_with(LiveBroker(config.broker_id, endpoints, config.rack))
        conflict = self.zk.endpoint_conflict(self.broker_info)
        if conflict is not None:
            raise ConfigError(f"Configured end points {conflict}")
        version = controller_config(config).registration_json_version
        self.context.broker_epoch = register_when_free(
            lambda: self.zk.register_broker(self.broker_info, version, self.clock.wall_ms()),
            config.get_int("zookeeper.session.timeout.ms"),
            self.clock,
            self._must_stop,
        )

    def _make_controller(self) -> Controller:
        settings = controller_config(self.config)
        self.controller_settings = settings
        channels = ChannelManager(
            self.config.broker_id,
            broker_connection.connector(settings, self.clock, self.context.peer_security.to_controller),
            self.clock,
            self.metrics,
            self.context.workers,
        )
        controller = Controller(
            self.broker_info,
            self.zk,
            channels,
            self.clock,
            self.scheduler,
            settings,
            self.metrics,
            chance=self.chance,
            on_new_broker_epoch=self._on_new_broker_epoch,
            await_feature_version=self._await_features,
            workers=self.context.workers,
        )
        # The controller stops after the log manager and before the ZooKeeper client.
        self._parts.add("controller", controller.shutdown, after=_ZOOKEEPER)
        return controller

    def _on_new_broker_epoch(self, epoch: int) -> None:
        self.context.broker_epoch = epoch

    def _start_admin(self) -> None:
        config, context = self.config, self.context
        self._parts.add("topic administration", make_topic_admin(context).shutdown)
        trial = ListenerTrial(self.listener_security)
        context.config_admin = ConfigAdmin(config, self.passwords, self.zk, context.zk_admin, trial)
        own = f"brokers/{config.broker_id}"
        PasswordRotation(
            self.passwords, partial(self.zk.config, own), partial(context.zk_admin.change_configs, own), self.scheduler
        ).start()
        context.config_view = ConfigView(config)
        source = make_producer_id_source(
            config, self.controller_channel, self.zk, self.scheduler, lambda: context.broker_epoch
        )
        context.producer_ids = ProducerIdManager(source, self.scheduler, self.clock)

    def _start_coordinators(self) -> None:
        """Coordinators set themselves on the context and register what is to be stopped. The authorizer comes last."""
        self._parts.add("group coordinator", make_group_coordinator(self.context).shutdown)
        self._parts.add("transaction coordinator", Transactions(self.context, self.scheduler).shutdown)
        self._start_authorizer()

    def _start_authorizer(self) -> None:
        """Nothing is served before it can decide."""
        context = self.context
        authorizer = make_authorizer(self.config, self.zk, self.clock, context.workers)
        context.authorizer = authorizer
        context.acls = authorizer if isinstance(authorizer, AclAuthorizer) else None
        if not authorizer.allows_everything:
            self.dispatcher.make_call = noted_call
        if isinstance(authorizer, (AclAuthorizer, OwnAuthorizer)):
            self._parts.add("authorizer", authorizer.close)

    def _start_config_listener(self) -> None:
        context = self.context
        reconfiguration = Reconfiguration(self)
        self.dynamic_config.add(reconfiguration.on_broker_change)
        quotas = context.quotas = Quotas(
            self.config,
            self.clock,
            self.metrics,
            partial(setattr, self.dispatcher, "make_call", QuotaCall),
            self.socket_server.quotas.update_ip_rate,
        )
        self._parts.add("quotas", quotas.close)
        listener = listen_for_configs(context, reconfiguration, self.dynamic_config, self.scram_credentials, quotas)
        self._parts.add("config listener", listener.close)
        if context.tokens is not None:
            self._parts.add("token listener", listen_for_tokens(context, context.tokens).close)
        if context.telemetry is not None:
            subscriptions = listen_for_subscriptions(context, context.telemetry, self.scheduler)
            self._parts.add("client metrics listener", subscriptions.close)
        groups = listen_for_group_configs(context, reconfiguration)
        if groups is not None:
            self._parts.add("group config listener", groups.close)

    def client_endpoints(self) -> Sequence[EndPoint]:
        """Where clients reach this broker; nothing before it serves them."""
        return self.broker_info.endpoints if self.state is BrokerState.RUNNING else ()

    def bound_port(self, listener: str) -> int:
        return self.socket_server.bound_port(listener)

    # ------------------------------------------------------------------ stop

    def shutdown(self) -> None:
        """Stop cleanly; idempotent. Every step swallows its own failure."""
        with self._stop_lock:
            if not self._started or self.state is BrokerState.NOT_RUNNING:
                return
            if self.config.get_bool("controlled.shutdown.enable"):
                self.state = BrokerState.PENDING_CONTROLLED_SHUTDOWN
                stop_quietly(
                    "controlled shutdown",
                    lambda: controlled_shutdown(
                        self.config,
                        self.context.metadata_cache,
                        lambda: self.context.broker_epoch,
                        self.clock,
                        self.context.peer_security.to_controller,
                    ),
                )
            self._stop_everything()

    def _stop_everything(self) -> None:
        self.state = BrokerState.SHUTTING_DOWN
        self._parts.stop_all()
        self.state = BrokerState.NOT_RUNNING
        self._stopped.set()
        logger.info("broker %d has stopped", self.config.broker_id)

    # ------------------------------------------------------------------ failures

    def _handle_log_dir_failure(self, directory: str) -> None:
        self.replica_manager.handle_log_dir_failure(directory)
        if not self.log_manager.live_log_dirs:
            logger.critical("all log directories have failed; halting")
            _halt()
        self.zk.propagate_log_dir_failure(self.config.broker_id)


def _halt() -> None:
    """End at once, without the clean stop that would vouch for the state of the data."""
    logging.shutdown()
    os._exit(1)
