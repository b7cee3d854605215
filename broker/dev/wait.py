"""``python -m broker.dev.wait``: until a cluster serves and its internal topics can be used."""

from __future__ import annotations

import sys

import click

from broker.cli.client import bootstrap_option, command_security
from broker.dev.polling import wait_until
from network.client.cluster_client import GROUP_COORDINATOR, TRANSACTION_COORDINATOR, ClusterClient
from network.protocol.errors import ApiError
from timer.clock import SystemClock


@click.command()
@bootstrap_option
@click.option("--brokers", default=1, show_default=True, type=click.IntRange(1), help="How many must be there.")
@click.option("--timeout-ms", default=120_000, show_default=True, type=click.IntRange(1))
def main(bootstrap_server: str, brokers: int, timeout_ms: int) -> None:
    """Wait for a cluster; exit code 1 when it does not come up in time."""
    clock = SystemClock()
    reason = "no broker answers"
    wrap = command_security()

    def ready() -> bool:
        nonlocal reason
        try:
            with ClusterClient(bootstrap_server, "odradek-wait", clock, request_timeout_ms=5_000, wrap=wrap) as client:
                seen = client.metadata([])
                if len(seen.brokers) < brokers or seen.controller_id < 0:
                    reason = f"{len(seen.brokers)} of {brokers} brokers, controller {seen.controller_id}"
                    return False
                # Asking for coordinators makes the internal topics.
                client.coordinator("odradek-wait", GROUP_COORDINATOR)
                client.coordinator("odradek-wait", TRANSACTION_COORDINATOR)
                return True
        except (OSError, ApiError) as error:
            reason = str(error)
            return False

    if not wait_until(ready, clock, timeout_ms, interval_ms=500):
        click.echo(f"odradek: the cluster is not ready after {timeout_ms // 1000} s: {reason}", err=True)
        sys.exit(1)
    click.echo(f"ready: bootstrap.servers={bootstrap_server}")


if __name__ == "__main__":
    main()
