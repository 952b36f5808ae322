"""Matrix products by the C kernel, at the level that this processor has."""

import ctypes
from collections.abc import Sequence

import torch
from torch import Tensor

from headwise.errors import HeadwiseError
from headwise.packed.blocks import PackedWeight
from headwise.packed.build import library
from headwise.packed.kinds import BLOCK
from headwise.packed.levels import LEVELS
from headwise.packed.structs import Weight


def weight_struct(weight: PackedWeight | Tensor, bias: Tensor | None) -> Weight:
    """The C view of a weight, packed or plain float32; the tensors must outlive it."""
    if isinstance(weight, Tensor):
        check_floats("weight", weight)
    if bias is not None:
        check_floats("bias", bias)
        if bias.shape != weight.shape[:1]:
            raise ValueError(f"bias: got shape {list(bias.shape)}, wanted [{weight.shape[0]}]")
    at = None if bias is None else bias.data_ptr()
    if isinstance(weight, Tensor):
        return Weight(weight.data_ptr(), at, weight.shape[0], weight.shape[1], 32, 0, 0, 0)
    form = weight.form
    return Weight(
        weight.data.data_ptr(),
        at,
        weight.rows,
        weight.columns,
        form.bits,
        form.has_minimum,
        form.offset,
        0,
    )


def check_floats(name: str, x: Tensor) -> None:
    """C reads what it is pointed at, so nothing but float32 numbers in a row may reach it."""
    if x.dtype != torch.float32 or not x.is_contiguous() or x.device.type != "cpu":
        raise ValueError(f"{name}: got {x.dtype} on {x.device}, wanted contiguous float32 on the processor")


def kernel() -> ctypes.CDLL:
    """The compiled kernel, which must be there."""
    built = library()
    if built is None:
        raise HeadwiseError("packed weights: the kernel asked for cannot be had without a C compiler")
    return built


def products(weights: Sequence[Weight], x: Tensor, which: str) -> list[Tensor]:
    """x · wᵀ + bias for each weight; x is float32 [row, columns], and rounded to int8 by blocks once."""
    check_floats("x", x)
    for weight in weights:
        if x.ndim != 2 or x.shape[1] != weight.columns or weight.columns % BLOCK:
            raise ValueError(f"x: got shape {list(x.shape)}, wanted [row, {weight.columns}], whole blocks of {BLOCK}")
    count = x.shape[0]
    outputs = [x.new_empty(count, weight.rows) for weight in weights]
    pointers = (ctypes.c_void_p * len(weights))(*[output.data_ptr() for output in outputs])
    array = (Weight * len(weights))(*weights)
    code = kernel().headwise_products(
        array,
        ctypes.c_long(len(weights)),
        ctypes.c_void_p(x.data_ptr()),
        ctypes.c_long(count),
        pointers,
        torch.get_num_threads(),
        LEVELS[which],
    )
    check_code(code)
    return outputs


def widen(weight: PackedWeight, dtype: torch.dtype, which: str, ids: Tensor | None = None) -> Tensor:
    """The rows `ids`, or all of them, in float32 or bfloat16; ids are int64 [row]."""
    if dtype not in (torch.float32, torch.bfloat16):
        raise ValueError(f"dtype: got {dtype}, wanted float32 or bfloat16")
    if ids is not None:
        if ids.dtype != torch.int64 or ids.ndim != 1 or not ids.is_contiguous():
            raise ValueError(f"ids: got {ids.dtype} of shape {list(ids.shape)}, wanted int64 [row]")
        weight.check_ids(ids)
    count = weight.rows if ids is None else len(ids)
    out = torch.empty(count, weight.columns, dtype=dtype)
    code = kernel().headwise_widen(
        ctypes.byref(weight_struct(weight, None)),
        ctypes.c_void_p(None if ids is None else ids.data_ptr()),
        ctypes.c_long(count),
        ctypes.c_void_p(out.data_ptr()),
        dtype == torch.bfloat16,
        torch.get_num_threads(),
        LEVELS[which],
    )
    check_code(code)
    return out


def check_code(code: int) -> None:
    """What a C function gives back: nought when done."""
    if code == 1:
        raise MemoryError("packed weights: no memory for this many rows")
    if code:
        raise HeadwiseError("packed weights: this processor cannot run the kernel asked for")
