from __future__ import annotations

import pytest

from network.server.body_buffers import BodyBuffers

LAZY = 4 << 20


def test_a_buffer_is_given_out_again_when_nobody_has_a_view_of_it() -> None:
    bodies = BodyBuffers()
    first = bodies.take(1000, LAZY)
    first[:] = b"a" * 1000
    part = first[500:600]
    of_part = memoryview(part).cast("B")
    del first, part
    second = bodies.take(1000, LAZY)
    assert second.obj is not of_part.obj
    second[:] = b"b" * 1000
    assert bytes(of_part) == b"a" * 100
    kept = of_part.obj
    of_part.release()
    del of_part, second
    identity = id(kept)
    del kept
    third = bodies.take(900, LAZY)
    assert id(third.obj) == identity
    assert len(third) == 900


@pytest.mark.parametrize("size", [0, 1, 70_000, (1 << 20) + 1, LAZY])
def test_every_size_is_writable(size: int) -> None:
    bodies = BodyBuffers()
    for _ in range(3):
        body = bodies.take(size, LAZY)
        assert (len(body), body.readonly) == (size, False)


def test_only_so_much_is_kept() -> None:
    bodies = BodyBuffers()
    large = bodies.take((1 << 20) + 1, LAZY)
    assert large.obj is not bodies._kept
    small = bodies.take(1 << 20, LAZY)
    assert small.obj is bodies._kept


def test_only_views_count_and_not_references_whose_number_differs_between_interpreters() -> None:
    bodies = BodyBuffers()
    first = bodies.take(1000, LAZY)
    buffer, also = first.obj, first.obj
    view = first.toreadonly()
    first.release()
    assert bodies.take(1000, LAZY).obj is not buffer
    view.release()
    assert bodies.take(1000, LAZY).obj is also is buffer
    assert len(bodies._kept) == 1000
