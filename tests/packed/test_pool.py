"""The kernel's threads: two callers at once, a fork, Ctrl-C in the middle."""

import os
import signal
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from blocks_by_hand import random_weight

from headwise.packed import native
from headwise.packed.levels import available

pytestmark = pytest.mark.skipif(not available(), reason="no C compiler here")


@pytest.fixture
def product() -> "Product":
    """A product that is large enough to be shared out."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield Product()  # type: ignore[misc]
    torch.set_num_threads(before)


class Product:
    """Calls the kernel, and knows what should come out."""

    def __init__(self) -> None:
        self._weight = random_weight("Q4_1", 256, 96)
        self._struct = native.weight_struct(self._weight, None)
        self._x = torch.randn(20, 96)
        self._wanted = self()

    def __call__(self) -> torch.Tensor:
        return native.products([self._struct], self._x, available()[0])[0]

    def right(self) -> bool:
        return torch.equal(self(), self._wanted)


def test_two_threads_may_call_at_once(product: Product) -> None:
    with ThreadPoolExecutor(4) as threads:
        assert all(threads.map(lambda _: product.right(), range(200)))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_has_threads_of_its_own(product: Product) -> None:
    child = os.fork()
    if child == 0:
        signal.alarm(20)  # a child that waits for threads it does not have must not live on
        os._exit(0 if product.right() and product.right() else 3)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert product.right()


def call_forever(product: Product) -> None:
    while True:
        product()


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers here")
def test_an_interrupt_leaves_the_kernel_usable(product: Product) -> None:
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        for _ in range(5):
            signal.setitimer(signal.ITIMER_REAL, 0.002)
            with pytest.raises(KeyboardInterrupt):
                call_forever(product)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert product.right()
