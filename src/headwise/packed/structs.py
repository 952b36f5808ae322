"""The structures of types.h and step.h, field for field."""

import ctypes


class Weight(ctypes.Structure):
    """A matrix, packed or float32; all zeros where there is none."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("bias", ctypes.c_void_p),
        ("rows", ctypes.c_int64),
        ("columns", ctypes.c_int64),
        ("bits", ctypes.c_int32),
        ("has_minimum", ctypes.c_int32),
        ("offset", ctypes.c_int32),
        ("unused", ctypes.c_int32),
    )


class Norm(ctypes.Structure):
    """What a norm multiplies with and adds; all zeros where there is none."""

    _fields_ = (("scale", ctypes.c_void_p), ("shift", ctypes.c_void_p))


class Layer(ctypes.Structure):
    """One block."""

    _fields_ = (
        ("projections", Weight * 3),
        ("output", Weight),
        ("gate", Weight),
        ("up", Weight),
        ("down", Weight),
        ("attention", Norm),
        ("feedforward", Norm),
        ("query", Norm),
        ("key", Norm),
        ("score_scale", ctypes.c_float),
        ("window", ctypes.c_int32),
    )


class Cache(ctypes.Structure):
    """The keys and values of one layer; `allowed` is nought where all may be seen."""

    _fields_ = (
        ("keys", ctypes.c_void_p),
        ("values", ctypes.c_void_p),
        ("capacity", ctypes.c_int64),
        ("length", ctypes.c_int64),
        ("allowed", ctypes.c_void_p),
    )


class Decoder(ctypes.Structure):
    """A whole decoder."""

    _fields_ = (
        ("layers", ctypes.c_int64),
        ("dim", ctypes.c_int64),
        ("heads", ctypes.c_int64),
        ("key_heads", ctypes.c_int64),
        ("head_dim", ctypes.c_int64),
        ("hidden", ctypes.c_int64),
        ("rotary_dims", ctypes.c_int64),
        ("epsilon", ctypes.c_float),
        ("head_factor", ctypes.c_float),
        ("norm_kind", ctypes.c_int32),
        ("activation", ctypes.c_int32),
        ("layer", ctypes.POINTER(Layer)),
        ("final", Norm),
        ("head", Weight),
    )
