"""Where a view lies in the object under it.

`bytearray` has fast strided slices and searches that `memoryview` lacks, and a batch is a view of a request's
`bytearray`; to use them without a copy of the batch one must know where in it the batch begins. Python does not tell,
but addresses do.
"""

from __future__ import annotations

from ctypes import addressof, c_char


def underlying(view: bytearray | memoryview) -> tuple[bytes | bytearray, int]:
    """The object that holds the bytes of a contiguous, writable `view`, and the position of its first byte there.

    A copy of the bytes if what is underneath is no `bytearray`.
    """
    if isinstance(view, bytearray):
        return view, 0
    base = view.obj
    if not isinstance(base, bytearray) or not view.contiguous or view.itemsize != 1:
        return bytes(view), 0
    if len(view) == len(base):
        return base, 0
    if not view:
        return b"", 0
    return base, addressof(c_char.from_buffer(view)) - addressof(c_char.from_buffer(base))
