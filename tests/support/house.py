"""Reads the product's source as the rules of docs/architecture.md see it: imports, private names, chance, lengths.

Everything works on a `dict` of module name to `Module`, so a test can plant a fault in a module that exists nowhere.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("timer", "network", "log", "controller", "broker", "spark_jobs", "odradek")

_NAMEDTUPLE = {"_replace", "_asdict", "_fields", "_make"}
_CLOCK = {
    f"time.{name}{unit}"
    for name in ("time", "monotonic", "perf_counter", "process_time", "thread_time")
    for unit in ("", "_ns")
} | {
    "time.sleep",
    "datetime.datetime.now",
    "datetime.datetime.utcnow",
    "datetime.datetime.today",
    "datetime.date.today",
}
_THREAD = {"threading.Thread", "threading.Timer", "concurrent.futures.ThreadPoolExecutor"}
_CHANCE = {"os.urandom", "uuid.uuid1", "uuid.uuid4"}
_CHANCE_MODULES = {"random", "secrets"}
_SOURCES = {"timer.chance.SystemChance", "timer.chance.SeededChance"}


@dataclass(slots=True)
class Module:
    """One source file: its dotted name and what it says."""

    name: str
    path: str
    tree: ast.Module
    imports: set[str] = field(default_factory=set)
    """Modules of the product that it names in an import, wherever the import stands."""
    nodes: list[ast.AST] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.nodes = list(ast.walk(self.tree))

    @property
    def package(self) -> str:
        return self.name.split(".")[0]


def parse(sources: Iterable[tuple[str, str]]) -> dict[str, Module]:
    """Modules by name from (path below the root, text)."""
    modules = {}
    for path, text in sources:
        name = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        modules[name] = Module(name, path, ast.parse(text, path))
    for module in modules.values():
        module.imports = {target for target in _imported(module, modules) if target != module.name}
    return modules


@functools.cache
def product() -> dict[str, Module]:
    """All modules of the product."""
    files = [file for package in PACKAGES for file in sorted((ROOT / package).rglob("*.py"))]
    return parse((str(file.relative_to(ROOT)), file.read_text()) for file in files)


def _imported(module: Module, modules: dict[str, Module]) -> Iterator[str]:
    for node in module.nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name in modules:
                    yield alias.name
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                if inner in modules:
                    yield inner
                elif node.module in modules:
                    yield node.module


def circles(modules: dict[str, Module]) -> set[frozenset[str]]:
    """Groups of modules that reach each other through imports (Tarjan's strongly connected components, without
    recursion)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    on_stack: set[str] = set()
    found: set[frozenset[str]] = set()
    for root in modules:
        if root in index:
            continue
        work = [(root, iter(sorted(modules[root].imports)))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        while work:
            name, targets = work[-1]
            for target in targets:
                if target not in index:
                    index[target] = low[target] = len(index)
                    stack.append(target)
                    on_stack.add(target)
                    work.append((target, iter(sorted(modules[target].imports))))
                    break
                if target in on_stack:
                    low[name] = min(low[name], index[target])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[name])
                if low[name] == index[name]:
                    start = stack.index(name)
                    component = frozenset(stack[start:])
                    on_stack -= component
                    del stack[start:]
                    if len(component) > 1:
                        found.add(component)
    return found


def private_uses(module: Module) -> set[str]:
    """`file: expression` of each private name that belongs to another module: `other._x` where the module itself
    defines no `_x`, and `from m import _x`."""
    own = _own_names(module)
    found = set()
    for node in module.nodes:
        if isinstance(node, ast.Attribute) and _is_private(node.attr):
            holder = node.value
            is_self = isinstance(holder, ast.Name) and holder.id in ("self", "cls")
            if not is_self and node.attr not in own:
                found.add(f"{module.path}: {ast.unparse(node)}")
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] in PACKAGES:
            found |= {f"{module.path}: {node.module}.{alias.name}" for alias in node.names if _is_private(alias.name)}
    return found


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("__") and name not in _NAMEDTUPLE


def _own_names(module: Module) -> set[str]:
    """Names that the module defines or sets on `self` or `cls`."""
    own = set()
    for node in module.nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            own.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            own.add(node.id)
        elif (
            isinstance(node, ast.Attribute)
            and isinstance(node.ctx, ast.Store)
            and isinstance(node.value, ast.Name)
            and node.value.id in ("self", "cls")
        ):
            own.add(node.attr)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.isidentifier():
            own.add(node.value)  # a name in __slots__
    return own


def calls(module: Module) -> Iterator[tuple[str, str]]:
    """("clock", "thread", "chance" or "source of chance", full name) for each use of them.

    A `Random` and an executor are handed in: their types may be named everywhere, but not made.
    """
    names = _full_names(module)
    called = {id(node.func) for node in module.nodes if isinstance(node, ast.Call)}
    for node in module.nodes:
        if not isinstance(node, ast.Attribute | ast.Name) or not isinstance(node.ctx, ast.Load):
            continue
        full = _resolve(node, names)
        if full in _CLOCK:
            yield "clock", full
        elif full in _THREAD and id(node) in called:
            yield "thread", full
        elif full in _SOURCES and id(node) in called:
            yield "source of chance", full
        elif full in _CHANCE or (full and _is_chance(full, id(node) in called)):
            yield "chance", full


def _is_chance(full: str, called: bool) -> bool:
    package, _, name = full.partition(".")
    return package in _CHANCE_MODULES and bool(name) and (name != "Random" or called)


def _full_names(module: Module) -> dict[str, str]:
    names = {}
    for node in module.nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                names[alias.asname or alias.name.split(".")[0]] = (
                    alias.name if alias.asname else alias.name.split(".")[0]
                )
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                names[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    return names


def _resolve(node: ast.expr, names: dict[str, str]) -> str | None:
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name) or node.id not in names:
        return None
    return ".".join([names[node.id], *reversed(parts)])


def long_functions(module: Module, limit: int) -> dict[str, int]:
    """Functions of more than `limit` lines, decorators and docstring left out: name to lines."""
    found = {}
    for node in module.nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno is not None:
            lines = node.end_lineno - node.lineno + 1
            if (doc := node.body[0]) and isinstance(doc, ast.Expr) and isinstance(doc.value, ast.Constant):
                lines -= (doc.end_lineno or doc.lineno) - doc.lineno + 1
            if lines > limit:
                found[f"{module.name}.{node.name}"] = lines
    return found
