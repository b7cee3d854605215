"""The Grafana dashboard: python docker/monitoring/dashboard.py > docker/monitoring/grafana/dashboards/odradek.json

A panel is a line here; `tests/operations/test_monitoring.py` asks a real Prometheus every query of it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

SOURCE = {"type": "prometheus", "uid": "prometheus"}
WIDTH = 24


@dataclass(frozen=True)
class Panel:
    """A figure or a graph; `queries` are expressions with their legends."""

    title: str
    queries: tuple[tuple[str, str], ...]
    unit: str = "short"
    is_figure: bool = False
    bad_from: float | None = None
    """A figure turns red from this value on."""
    bad_below: float | None = None
    stacked: bool = False


def figure(title: str, query: str, *, bad_from: float | None = None, bad_below: float | None = None) -> Panel:
    return Panel(title, ((query, ""),), is_figure=True, bad_from=bad_from, bad_below=bad_below)


def graph(title: str, unit: str, *queries: tuple[str, str], stacked: bool = False) -> Panel:
    return Panel(title, queries, unit, stacked=stacked)


def part(name: str) -> str:
    """Mean of one part of a request's time."""
    series = f"kafka_network_requestmetrics_{name}timems"
    chosen = '{request=~"$request"}'
    return f"sum(rate({series}_sum{chosen}[$__rate_interval])) / sum(rate({series}_count{chosen}[$__rate_interval]))"


def rate(series: str, by: str = "instance", where: str = "") -> tuple[str, str]:
    return f"sum by ({by}) (rate({series}{where}[$__rate_interval]))", f"{{{{{by}}}}}"


ROWS: dict[str, list[Panel]] = {
    "The cluster": [
        figure("Brokers", 'count(up{job="odradek"} == 1)'),
        figure("Controllers", "sum(kafka_controller_kafkacontroller_activecontrollercount)", bad_from=2, bad_below=1),
        figure("Offline partitions", "max(kafka_controller_kafkacontroller_offlinepartitionscount)", bad_from=1),
        figure("Under-replicated", "sum(kafka_server_replicamanager_underreplicatedpartitions)", bad_from=1),
        figure("Under min ISR", "sum(kafka_server_replicamanager_underminisrpartitioncount)", bad_from=1),
        figure("Failed directories", "sum(kafka_log_logmanager_offlinelogdirectorycount)", bad_from=1),
        figure("Topics", "max(kafka_controller_kafkacontroller_globaltopiccount)"),
        figure("Partitions", "max(kafka_controller_kafkacontroller_globalpartitioncount)"),
    ],
    "What goes in and out": [
        graph("Records in", "cps", rate("kafka_server_brokertopicmetrics_messagesin_total", where='{topic=""}')),
        graph("Bytes in", "Bps", rate("kafka_server_brokertopicmetrics_bytesin_total", where='{topic=""}')),
        graph("Bytes out", "Bps", rate("kafka_server_brokertopicmetrics_bytesout_total", where='{topic=""}')),
        graph(
            "Bytes in by topic", "Bps", rate("kafka_server_brokertopicmetrics_bytesin_total", "topic", '{topic!=""}')
        ),
        graph(
            "Replication",
            "Bps",
            ("sum(rate(kafka_server_brokertopicmetrics_replicationbytesin_total[$__rate_interval]))", "in"),
            ("sum(rate(kafka_server_brokertopicmetrics_replicationbytesout_total[$__rate_interval]))", "out"),
        ),
        graph("Size by topic", "bytes", ("sum by (topic) (kafka_log_log_size)", "{{topic}}")),
    ],
    "A request": [
        graph("Requests", "reqps", rate("kafka_network_requestmetrics_requests_total", "request")),
        graph(
            "99th percentile of the whole",
            "ms",
            ('max by (request) (kafka_network_requestmetrics_totaltimems{quantile="0.99"})', "{{request}}"),
        ),
        graph(
            "Where the time goes, mean",
            "ms",
            *(
                (part(name), text)
                for name, text in (
                    ("requestqueue", "waits for a handler"),
                    ("local", "is worked on"),
                    ("remote", "waits in a purgatory"),
                    ("throttle", "is held back by a quota"),
                    ("responsequeue", "waits to be sent"),
                    ("responsesend", "is sent"),
                )
            ),
            stacked=True,
        ),
        graph("Errors", "reqps", rate("kafka_network_requestmetrics_errors_total", "error", '{error!="NONE"}')),
        graph(
            "Queues",
            "short",
            ("sum by (instance) (kafka_network_requestchannel_requestqueuesize)", "requests {{instance}}"),
            (
                'sum by (instance) (kafka_network_requestchannel_responsequeuesize{processor=""})',
                "answers {{instance}}",
            ),
        ),
        graph(
            "Idle",
            "percentunit",
            ("kafka_network_socketserver_networkprocessoravgidle_percent", "processors {{instance}}"),
            ("kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent", "handlers {{instance}}"),
        ),
        graph(
            "In purgatories",
            "short",
            (
                "sum by (delayedOperation) (kafka_server_delayedoperationpurgatory_purgatorysize)",
                "{{delayedOperation}}",
            ),
        ),
        graph(
            "Connections",
            "short",
            ("sum by (instance) (kafka_server_socket_server_metrics_connection_count)", "{{instance}}"),
        ),
    ],
    "Replication, groups, controller": [
        graph("Largest lag of a follower", "short", ("kafka_server_replicafetchermanager_maxlag", "{{instance}}")),
        graph(
            "ISR changes",
            "cps",
            ("sum(rate(kafka_server_replicamanager_isrshrinks_total[$__rate_interval]))", "shrinks"),
            ("sum(rate(kafka_server_replicamanager_isrexpands_total[$__rate_interval]))", "expands"),
        ),
        graph(
            "Groups",
            "short",
            ("sum(kafka_coordinator_group_groupmetadatamanager_numgroupsstable)", "stable"),
            ("sum(kafka_coordinator_group_groupmetadatamanager_numgroupspreparingrebalance)", "joining"),
            ("sum(kafka_coordinator_group_groupmetadatamanager_numgroupscompletingrebalance)", "awaiting assignment"),
            ("sum(kafka_coordinator_group_groupmetadatamanager_numgroupsempty)", "empty"),
            stacked=True,
        ),
        graph(
            "Controller's events",
            "short",
            ("sum(kafka_controller_controllereventmanager_eventqueuesize)", "in the queue"),
            ("sum(kafka_controller_controllerchannelmanager_totalqueuesize)", "requests to brokers"),
        ),
    ],
    "The processes": [
        graph("CPU", "percentunit", ("rate(process_cpu_seconds_total[$__rate_interval])", "{{instance}}")),
        graph("Memory", "bytes", ("process_resident_memory_bytes", "{{instance}}")),
        graph("Open files", "short", ("process_open_fds", "{{instance}}")),
        graph(
            "Collections of the oldest generation", "cps", rate("python_gc_collections_total", where='{generation="2"}')
        ),
    ],
}


def panel(number: int, of: Panel, x: int, y: int) -> dict[str, object]:
    """Grafana's object for a panel at its place in the grid."""
    targets = [
        {"refId": chr(65 + index), "expr": query, "legendFormat": legend or "__auto", "datasource": SOURCE}
        for index, (query, legend) in enumerate(of.queries)
    ]
    steps: list[dict[str, object]] = [{"color": "red" if of.bad_below is not None else "text", "value": None}]
    if of.bad_below is not None:
        steps.append({"color": "text", "value": of.bad_below})
    if of.bad_from is not None:
        steps.append({"color": "red", "value": of.bad_from})
    defaults: dict[str, object] = {"unit": of.unit, "min": 0, "thresholds": {"mode": "absolute", "steps": steps}}
    if not of.is_figure:
        defaults["custom"] = {
            "lineWidth": 1,
            "fillOpacity": 20 if of.stacked else 5,
            "showPoints": "never",
            "stacking": {"mode": "normal" if of.stacked else "none"},
        }
    return {
        "id": number,
        "type": "stat" if of.is_figure else "timeseries",
        "title": of.title,
        "datasource": SOURCE,
        "gridPos": {"x": x, "y": y, "w": 3 if of.is_figure else 8, "h": 4 if of.is_figure else 8},
        "targets": targets,
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": {"colorMode": "value", "graphMode": "none"} if of.is_figure else {"tooltip": {"mode": "multi"}},
    }


def dashboard() -> dict[str, object]:
    """The whole."""
    panels: list[dict[str, object]] = []
    y = 0
    for title, row in ROWS.items():
        panels.append(
            {
                "id": len(panels) + 1,
                "type": "row",
                "title": title,
                "collapsed": False,
                "gridPos": {"x": 0, "y": y, "w": WIDTH, "h": 1},
                "panels": [],
            }
        )
        y += 1
        x = 0
        for each in row:
            width, height = (3, 4) if each.is_figure else (8, 8)
            if x + width > WIDTH:
                x, y = 0, y + height
            panels.append(panel(len(panels) + 1, each, x, y))
            x += width
        y += height
    variable = {
        "name": "request",
        "label": "Request",
        "type": "query",
        "datasource": SOURCE,
        "query": "label_values(kafka_network_requestmetrics_totaltimems_count, request)",
        "current": {"text": "Produce", "value": "Produce"},
        "refresh": 2,
        "sort": 1,
    }
    return {
        "uid": "odradek",
        "title": "Odradek",
        "schemaVersion": 39,
        "editable": True,
        "refresh": "10s",
        "time": {"from": "now-30m", "to": "now"},
        "tags": ["kafka"],
        "templating": {"list": [variable]},
        "panels": panels,
    }


if __name__ == "__main__":
    print(json.dumps(dashboard(), indent=1))
