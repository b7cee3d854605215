"""Finds the handler modules: every module of `broker.api` registers itself when it is imported."""

from __future__ import annotations

import importlib
import pkgutil

import broker.api


def import_handlers() -> None:
    """Import every module of `broker.api`, and with it fill the handler table."""
    for module in pkgutil.iter_modules(broker.api.__path__):
        importlib.import_module(f"broker.api.{module.name}")
