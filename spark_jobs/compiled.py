"""Compilation of the hot loops by LLVM, or not at all: without llvmlite the same code runs as plain Python.

A process compiles what it calls, in some hundredths of a second, whatever file or zip the code comes from: there is
nothing to cache, to build for a platform or to clean up.
"""

from __future__ import annotations

import ctypes
import functools
import threading
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np

from spark_jobs.loop_compiler import BYTES, HALVES, NUMBER, WORDS, Signature, assembly

F = TypeVar("F", bound=Callable[..., Any])

try:
    # The pass builder came with the LLVM that has pointers without a type, which the text for it uses.
    from llvmlite.binding import create_pass_builder as _  # noqa: F401

    COMPILED = True
except (ImportError, OSError):  # pragma: no cover - exercised by the tests that hide llvmlite
    COMPILED = False

_lock = threading.Lock()
_TYPES = {BYTES: np.dtype(np.uint8), HALVES: np.dtype(np.int32), WORDS: np.dtype(np.int64)}


def compiled(function: F) -> F:
    """Compile at the first call, with all that it calls; arrays must then be contiguous."""
    if not COMPILED:
        return function
    native: Callable[..., Any] | None = None

    @functools.wraps(function)
    def call(*arguments: Any) -> Any:
        nonlocal native
        if native is None:
            with _lock:
                native = native or _native(function)
        return native(*arguments)

    return cast(F, call)


def _native(function: Callable[..., Any]) -> Callable[..., Any]:
    text, signature = assembly(function)
    address = _machine_code(text, f"{signature.name}.entry")
    types: list[Any] = [ctypes.c_void_p]
    for _, kind in signature.parameters:
        types.append(ctypes.c_int64 if kind == NUMBER else ctypes.c_void_p)
        if kind == WORDS:
            types += [ctypes.c_int64, ctypes.c_int64]
    return _caller(ctypes.CFUNCTYPE(None, *types)(address), signature)


def _caller(entry: Callable[..., None], signature: Signature) -> Callable[..., Any]:
    kinds = [kind for _, kind in signature.parameters]
    results_type = ctypes.c_int64 * signature.results

    def call(*arguments: Any) -> Any:
        passed: list[Any] = []
        for argument, kind in zip(arguments, kinds, strict=True):
            if kind == NUMBER:
                passed.append(int(argument))
                continue
            if not argument.flags.c_contiguous or argument.dtype != _TYPES[kind]:
                raise TypeError(f"{signature.name} takes contiguous arrays of {kind}")
            passed.append(argument.ctypes.data)
            if kind == WORDS:
                passed += [argument.shape[0], argument.shape[1] if argument.ndim > 1 else 1]
        results = results_type()
        entry(results, *passed)
        if signature.results > 1:
            return tuple(results)
        return results[0] if signature.results else None

    return call


# What was compiled lives as long as the process.
_engines: list[Any] = []


def _machine_code(text: str, name: str) -> int:
    """Address of a function of LLVM's text, optimised for this processor."""
    from llvmlite import binding

    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    target = binding.Target.from_default_triple()
    machine = target.create_target_machine(
        cpu=binding.get_host_cpu_name(), features=binding.get_host_cpu_features().flatten(), opt=3
    )
    module = binding.parse_assembly(text)
    module.triple = machine.triple
    module.data_layout = str(machine.target_data)
    options = binding.create_pipeline_tuning_options(speed_level=3)
    builder = binding.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    engine = binding.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    _engines.append((engine, machine))
    return int(engine.get_function_address(name))


def as_buffer(data: Any) -> Any:
    """Bytes as the loops index them: a numpy view when compiled, else ``bytes`` (plain ints, no numpy scalars)."""
    return np.frombuffer(data, dtype=np.uint8) if COMPILED else bytes(data)


def new_buffer(size: int) -> Any:
    """Writable bytes for the loops, not cleared when compiled."""
    return np.empty(size, dtype=np.uint8) if COMPILED else bytearray(size)
