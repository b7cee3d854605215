"""Where blocks of producer ids come from: the controller, or, with old protocol versions, ZooKeeper."""

from __future__ import annotations

import logging
from collections.abc import Callable

from broker.cluster.controller_channel import ControllerChannel
from broker.config.kafka_config import KafkaConfig
from broker.transactions.producer_ids import BlockSource, ProducerIdBlock
from controller.zk.client import ZkClient
from network.protocol.api import ApiKey
from network.protocol.errors import ErrorCode
from network.protocol.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from timer.scheduler import Scheduler

logger = logging.getLogger(__name__)

Answer = Callable[["ProducerIdBlock | ErrorCode"], None]


class ControllerBlocks:
    """AllocateProducerIds to the active controller."""

    def __init__(self, broker_id: int, broker_epoch: Callable[[], int], channel: ControllerChannel) -> None:
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._channel = channel

    def request_block(self, callback: Answer) -> None:
        def build(version: int) -> AllocateProducerIdsRequest:
            return AllocateProducerIdsRequest(broker_id=self._broker_id, broker_epoch=self._broker_epoch())

        def on_response(response: AllocateProducerIdsResponse) -> None:
            if response.error_code != ErrorCode.NONE:
                callback(ErrorCode.of(response.error_code))
            else:
                callback(ProducerIdBlock(response.producer_id_start, response.producer_id_len))

        self._channel.send(ApiKey.ALLOCATE_PRODUCER_IDS, build, on_response)


class ZooKeeperBlocks:
    """Every broker takes its blocks from the znode itself (`inter.broker.protocol.version` below 3.0)."""

    def __init__(self, broker_id: int, zk: ZkClient, scheduler: Scheduler) -> None:
        self._broker_id = broker_id
        self._zk = zk
        self._scheduler = scheduler

    def request_block(self, callback: Answer) -> None:
        def take() -> None:
            try:
                block = self._zk.allocate_producer_id_block(self._broker_id)
            except Exception:
                logger.exception("no producer id block from ZooKeeper")
                callback(ErrorCode.UNKNOWN_SERVER_ERROR)
            else:
                callback(ProducerIdBlock(block.first, block.size))

        self._scheduler.schedule_once("producer-id-block", take)


def make_producer_id_source(
    config: KafkaConfig,
    channel: ControllerChannel,
    zk: ZkClient,
    scheduler: Scheduler,
    broker_epoch: Callable[[], int],
) -> BlockSource:
    if config.version.allocates_producer_ids:
        return ControllerBlocks(config.broker_id, broker_epoch, channel)
    return ZooKeeperBlocks(config.broker_id, zk, scheduler)
