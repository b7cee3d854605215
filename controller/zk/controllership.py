"""`/controller` and `/controller_epoch`: winning, knowing and giving up the controllership."""

from __future__ import annotations

import logging

from controller.zk import paths
from controller.zk.access import ControllerMovedError, ZnodeAccess, expect
from controller.zk.ops import Code, Create, Delete, Multi, SetData
from controller.zk.payloads import ControllerZnode, PayloadError, decode_controller, encode_controller
from controller.zk.session import ZkError

logger = logging.getLogger(__name__)


class ControllerZnodes(ZnodeAccess):
    """Typed access to the two controller znodes."""

    def controller(self) -> ControllerZnode | None:
        """Who is controller, or None. Arms the watch if a data handler is registered (but not on a missing znode)."""
        found = self.read(paths.CONTROLLER)
        return None if found is None else decode_controller(found[0])

    def controller_with_version(self) -> tuple[ControllerZnode, int] | None:
        """Who is controller and the version of the znode."""
        found = self.read(paths.CONTROLLER)
        if found is None:
            return None
        controller = decode_controller(found[0])
        return None if controller is None else (controller, found[1].version)

    def controller_epoch(self) -> tuple[int, int] | None:
        """The controller epoch and the version of its znode, or None before the first election ever."""
        found = self.read(paths.CONTROLLER_EPOCH)
        if found is None:
            return None
        try:
            return int((found[0] or b"").decode()), found[1].version
        except ValueError as error:
            raise PayloadError(f"{paths.CONTROLLER_EPOCH}: not a number: {found[0]!r}") from error

    def register_controller(self, broker_id: int, timestamp_ms: int) -> tuple[int, int]:
        """Become controller: create `/controller` and raise the epoch in one transaction.

        Returns (epoch, version of `/controller_epoch`): the second fences every later write. Raises
        `ControllerMovedError` if another broker won.
        """
        epoch, version = self.controller_epoch() or self._create_epoch()
        new_epoch = epoch + 1
        response = self._one(
            Multi(
                (
                    Create(paths.CONTROLLER, encode_controller(broker_id, timestamp_ms), ephemeral=True),
                    SetData(paths.CONTROLLER_EPOCH, str(new_epoch).encode(), version),
                )
            )
        )
        if response.ok:
            stat = response.results[1].stat
            assert stat is not None
            return new_epoch, stat.version
        if response.code in (Code.NODE_EXISTS, Code.BAD_VERSION):
            return self._verify_own_election(broker_id, new_epoch)
        raise ZkError(response.code, paths.CONTROLLER)

    def delete_controller(self, fence: int) -> None:
        """Give up the controllership so that another broker can be elected. A missing znode is no error."""
        response = self.fenced([Delete(paths.CONTROLLER)], fence)[0]
        if response.code is not Code.NO_NODE:
            expect(response, paths.CONTROLLER)

    def _create_epoch(self) -> tuple[int, int]:
        response = self._one(Create(paths.CONTROLLER_EPOCH, b"0"))
        if response.code is Code.NODE_EXISTS:
            found = self.controller_epoch()
            if found is None:
                raise PayloadError(f"{paths.CONTROLLER_EPOCH} vanished, which no broker does")
            return found
        expect(response, paths.CONTROLLER_EPOCH)
        return 0, 0

    def _verify_own_election(self, broker_id: int, new_epoch: int) -> tuple[int, int]:
        """The transaction may have been applied before its answer was lost: then `/controller` is ours."""
        current = self.controller()
        if current is None or current.broker_id != broker_id:
            raise ControllerMovedError(
                "another broker became controller"
                if current is None
                else f"broker {current.broker_id} became controller"
            )
        found = self.controller_epoch()
        if found is None or found[0] != new_epoch:
            raise ControllerMovedError(f"expected controller epoch {new_epoch}, found {found}")
        logger.info("The election transaction had been applied before its answer was lost")
        return new_epoch, found[1]
