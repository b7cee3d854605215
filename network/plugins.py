"""Objects of the user's own, named in the configuration as `package.module:Class`."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
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
    except Exception as error:  # whatever the module does when it is imported
        raise ValueError(f"{key}: {text} cannot be used: {type(error).__name__}: {error}") from None
    if not isinstance(found, type):
        raise ValueError(f"{key}: {text} is no class")
    return found


def make_configured(key: str, text: str, method: str, configs: Mapping[str, str]) -> Any:
    """An object of the class that `text` names, which must have `method`; its `configure`, if it has one, is given the
    properties. Raises ValueError, which names the key, whatever the class raises."""
    own = load_class(key, text)
    try:
        made = own()
        if not callable(getattr(made, method, None)):
            raise TypeError(f"it has no method {method}")
        configure = getattr(made, "configure", None)
        if configure is not None:
            configure(dict(configs))
    except Exception as error:
        raise ValueError(f"{key}: {text} cannot be used: {type(error).__name__}: {error}") from error
    return made
