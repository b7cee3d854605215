"""Keys that only this broker has."""

from __future__ import annotations

KEYS: dict[str, str] = {
    "odradek.http.host": "Address on which metrics and health are served over HTTP. Neither encryption nor login is "
    "there, so anything but loopback shows them to everybody who can reach it.",
    "odradek.http.port": "Port on which /metrics, /health/live and /health/ready are served over HTTP; 0 takes a free "
    "one. Not set, nothing is served.",
    "odradek.metrics.partitions": "Whether /metrics shows the series of single partitions, about ten for each.",
}
