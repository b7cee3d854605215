"""What of the documentation is written by the code: `python -m tests.site.generated` writes all of it.

(Three pages have writers of their own: configuration, commands and metrics.)
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import broker.api
from odradek import cluster, pytest_plugin, testing
from tests.site import plain_pictures, state_pictures
from tests.support.paths import ROOT

_WITHOUT_EFFECT = "No effect"
_HEAD = re.compile(r"(?P<name>\w+) \(key (?P<key>\d+), versions? (?P<versions>[\d-]+)\)[:.]? ?(?P<text>.*)", re.DOTALL)


def apis_page() -> str:
    """Every request that a broker serves, from the first lines of its handlers."""
    rows = []
    for found in pkgutil.iter_modules(broker.api.__path__, "broker.api."):
        module = importlib.import_module(found.name)
        doc = inspect.getdoc(module) or ""
        head = _HEAD.match(doc.partition("\n\n")[0])
        if head is None:
            continue
        text = " ".join(head["text"].split()).rstrip(".") or "-"
        path = module.__name__.replace(".", "/") + ".py"
        row = f"| {head['key']} | {head['name']} | {head['versions']} | {text[0].upper() + text[1:]} | `{path}` |"
        rows.append((int(head["key"]), row))
    lines = "\n".join(row for _, row in sorted(rows))
    return f"""# Requests

Written by `python -m tests.site.generated`; do not edit.

What a broker serves, which is what Apache Kafka 3.9.1 serves in ZooKeeper mode, in the same versions. ApiVersions
offers the rows of this table, less what the configuration switches off: the consumer protocol (68, 69) and client
telemetry (71, 72, 74, which Kafka has in KRaft mode only) are off by default. What each version changed stands at the
end of the handler's docstring.

| key | request | versions | what it does | file |
|---|---|---|---|---|
{lines}
"""


def python_page() -> str:
    """`Cluster`, the fixtures and `KafkaContainer`, from their docstrings."""
    return f"""# The Python API

Written by `python -m tests.site.generated`; do not edit.
[Five minutes in Python](start/python.md) is a better beginning.

## `odradek.Cluster`

```python
from odradek import Cluster, ClusterError
```

{_class(cluster.Cluster)}

## Fixtures of the pytest plugin

{_fixtures(pytest_plugin)}

## `odradek.testing.KafkaContainer`

```python
from odradek.testing import KafkaContainer
```

{_class(testing.KafkaContainer)}
"""


def _class(of: type) -> str:
    parts = [_text(of), f"```python\n{of.__name__}{_signature(vars(of)['__init__'])}\n```", _text(vars(of)["__init__"])]
    without_effect = []
    for name, member in vars(of).items():
        if name.startswith("_"):
            continue
        if _text(member).startswith(_WITHOUT_EFFECT):
            without_effect.append(f"`{name}`")
            continue
        if isinstance(member, property):
            parts.append(f"**`{name}`**: {_text(member)}")
        elif inspect.isfunction(member):
            parts.append(f"**`{name}{_signature(member)}`**: {_text(member)}")
    if without_effect:
        parts.append(f"There and without effect: {', '.join(without_effect)}.")
    return "\n\n".join(part for part in parts if part)


def _fixtures(module: ModuleType) -> str:
    source = inspect.getsource(module)
    found = re.findall(r'@pytest\.fixture[^\n]*\ndef ([a-z]\w+)\([^"]*?"""(.*?)"""', source, re.DOTALL)
    return "\n\n".join(f"**`{name}`**: {' '.join(text.split())}" for name, text in found)


def _text(of: object) -> str:
    doc = inspect.getdoc(of)
    if doc is None or doc.startswith(("Initialize self", "Special method")):
        return ""
    return re.sub(r"``([^`]+)``", r"`\1`", doc)


def _signature(function: Callable[..., object]) -> str:
    signature = inspect.signature(function)
    parameters = [each for name, each in signature.parameters.items() if name != "self"]
    return re.sub(r"(: |-> )'([^']*)'", r"\1\2", str(signature.replace(parameters=parameters)))


PAGES = {"apis.md": apis_page, "python.md": python_page}
PICTURES = {f"images/{name}": draw for name, draw in {**state_pictures.PICTURES, **plain_pictures.PICTURES}.items()}
WRITTEN: dict[str, Callable[[], str]] = {**PAGES, **PICTURES}


def main(docs: Path = ROOT / "docs") -> None:
    """Write everything below `docs`."""
    for name, write in WRITTEN.items():
        (docs / name).parent.mkdir(exist_ok=True)
        (docs / name).write_text(write(), encoding="utf-8")


if __name__ == "__main__":
    main()
