"""Which part of a produce a sample of the profiler is counted to."""

from __future__ import annotations

from benchmarks.native_samples import parts

SCRIPT = """\
    ffffffff81 copy_folio_from_iter_atomic ([kernel.kallsyms])
    ffffffff82 __x64_sys_pwrite64 ([kernel.kallsyms])
        7f0000 pwrite (/usr/lib/libc.so.6)
        7f0001 _PyEval_EvalFrameDefault (/usr/lib/libpython3.11.so.1.0)

        7f0002 _crc32c_hw_adler (/site-packages/_crc32c.cpython-311-x86_64-linux-gnu.so)
        7f0001 _PyEval_EvalFrameDefault (/usr/lib/libpython3.11.so.1.0)

        7f0001 _PyEval_EvalFrameDefault (/usr/lib/libpython3.11.so.1.0)

    ffffffff83 some_interrupt ([kernel.kallsyms])
        7f0001 _PyEval_EvalFrameDefault (/usr/lib/libpython3.11.so.1.0)

    ffffffff84 do_syscall_64 ([kernel.kallsyms])
    ffffffff85 __x64_sys_getpid ([kernel.kallsyms])

        7f0003 memmove (/usr/lib/libc.so.6)
        7f0004 operator new (unsigned long) (/usr/lib/somewhere.so)
"""


def test_each_sample_belongs_to_one_part() -> None:
    assert parts(SCRIPT) == {
        "write to the log file": 1,
        "CRC": 1,
        "the interpreter": 1,
        "kernel, outside a call": 1,
        "other system calls": 1,
        "C library (copies, zeroes, memory)": 1,
    }
