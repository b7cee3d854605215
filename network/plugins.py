"""Objects of the user's own, named in the configuration as `package.module:Class`."""

from __future__ import annotations

import importlib
from typing import Any


def load_class(key: str, text: str) -> Any:
    """The class that `text` names. Raises ValueError, which names the key."""
    module_name, colon, class_name = text.strip().partition(":")
    if not colon:
        raise ValueError(f"{key}: {text} is a Java class; name a Python one as package.module:Class")
    try:
        found = importlib.import_module(module_name)
        for part in class_name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(f"{key}: {text} cannot be loaded: {error}") from None
    if not isinstance(found, type):
        raise ValueError(f"{key}: {text} is no class")
    return found
