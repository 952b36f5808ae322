"""KeyValueCache: the keys and values of the tokens so far, so that one more token costs one step."""

import torch
from torch import Tensor


class KeyValueCache:
    """Keys and values of one attention layer, [batch, key_value_head, token, head_dim], growing as tokens come.

    `capacity` tokens are held without growing; with a `window`, tokens that no later query can see are forgotten.
    """

    def __init__(self, capacity: int = 0, window: int | None = None) -> None:
        if capacity < 0:
            raise ValueError(f"capacity: got {capacity}, wanted zero or more tokens")
        if window is not None and window < 1:
            raise ValueError(f"window: got {window}, wanted a positive number of positions")
        self.window = window
        self.length = 0
        """Tokens held."""
        self.seen = 0
        """Tokens ever appended: the position of the next one."""
        self.padding: Tensor | None = None
        """[batch, length] bool: which of them are tokens and not filling; None where all are."""
        self._capacity = capacity
        self._keys: Tensor | None = None
        self._values: Tensor | None = None

    @property
    def keys(self) -> Tensor:
        """The keys held, [batch, key_value_head, length, head_dim]."""
        return self._held(self._keys)

    @property
    def values(self) -> Tensor:
        """The values held, like the keys."""
        return self._held(self._values)

    def append(self, key: Tensor, value: Tensor, padding: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Add the keys and values of new tokens; returns all that a query among the new ones may see."""
        self._check(key, value)
        self._forget()
        self._remember(padding, key.shape[0], key.shape[2])
        new = key.shape[2]
        if torch.is_grad_enabled() and (key.requires_grad or value.requires_grad):
            # Writing into a buffer would cut or tangle the gradients; joining keeps them whole.
            self._keys = key if self._keys is None else torch.cat([self.keys, key], dim=2)
            self._values = value if self._values is None else torch.cat([self.values, value], dim=2)
        else:
            self._keys = self._write(self._keys, key)
            self._values = self._write(self._values, value)
        self.length += new
        self.seen += new
        return self.keys, self.values

    def open(self, new: int, padding: Tensor | None = None, like: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Count so many more tokens, whose keys and values the caller writes at the end of the buffers' `length`.

        An empty cache becomes one for tensors `like` this one.
        """
        keys = self.keys if like is None else like
        values = self.values if like is None else like
        self._forget()
        self._remember(padding, keys.shape[0], new)
        self._keys = self._roomy(self._keys, keys, new)
        self._values = self._roomy(self._values, values, new)
        self.length += new
        self.seen += new
        return self._keys, self._values

    def reorder(self, rows: Tensor) -> None:
        """Row i becomes what row rows[i] was, as beam search asks; rows may repeat or be left out."""
        if self._keys is not None and self._values is not None:
            self._keys = self._keys.index_select(0, rows)
            self._values = self._values.index_select(0, rows)
        if self.padding is not None:
            self.padding = self.padding.index_select(0, rows)

    def _held(self, buffer: Tensor | None) -> Tensor:
        if buffer is None:
            raise ValueError("cache: got an empty one, wanted one that holds tokens")
        return buffer[:, :, : self.length]

    def _write(self, buffer: Tensor | None, new: Tensor) -> Tensor:
        buffer = self._roomy(buffer, new, new.shape[2])
        buffer[:, :, self.length : self.length + new.shape[2]] = new
        return buffer

    def _roomy(self, buffer: Tensor | None, like: Tensor, new: int) -> Tensor:
        """The buffer, or a longer copy, with room behind what it holds."""
        stop = self.length + new
        if buffer is None or stop > buffer.shape[2] or not _writable(buffer):
            room = max(stop, self._capacity, 2 * self.length)
            grown = like.new_empty(like.shape[0], like.shape[1], room, like.shape[3])
            if buffer is not None:
                grown[:, :, : self.length] = buffer[:, :, : self.length]
            buffer = grown
        return buffer

    def _forget(self) -> None:
        """Drop what the window has passed, once there is as much to drop as to keep: a token is moved once at most."""
        if self.window is None or self.length < 2 * self.window:
            return
        keep = self.window - 1
        # A fresh buffer, not a move in place: whoever still holds what `append` returned keeps what it saw.
        self._keys = _tail(self.keys, keep)
        self._values = _tail(self.values, keep)
        if self.padding is not None:
            self.padding = self.padding[:, self.length - keep :]
        self.length = keep

    def _remember(self, padding: Tensor | None, batch: int, new: int) -> None:
        if padding is None and self.padding is None:
            return
        if padding is not None and padding.shape != (batch, new):
            raise ValueError(f"padding: got shape {list(padding.shape)}, wanted [{batch}, {new}] (batch, new tokens)")
        device = (padding if self.padding is None else self.padding).device  # type: ignore[union-attr]
        before = (
            torch.ones(batch, self.length, dtype=torch.bool, device=device) if self.padding is None else self.padding
        )
        now = torch.ones(batch, new, dtype=torch.bool, device=device) if padding is None else padding
        self.padding = torch.cat([before, now], dim=1)

    def _check(self, key: Tensor, value: Tensor) -> None:
        if key.shape[:3] != value.shape[:3]:
            raise ValueError(f"value: got shape {list(value.shape)}, wanted one like key's {list(key.shape)}")
        for name, held, new in (("key", self._keys, key), ("value", self._values, value)):
            if held is None:
                continue
            got, want = list(new.shape), list(held.shape)
            if [*got[:2], got[3]] != [*want[:2], want[3]] or new.dtype != held.dtype:
                raise ValueError(
                    f"cache: holds {name}s of shape [{want[0]}, {want[1]}, tokens, {want[3]}] and {held.dtype}, "
                    f"got {got} and {new.dtype}; wanted the cache of this layer and batch"
                )


def _writable(buffer: Tensor) -> bool:
    """What was made in inference mode may not be written outside of it."""
    if torch.compiler.is_compiling():
        return True
    return torch.is_inference_mode_enabled() or not buffer.is_inference()


def _tail(held: Tensor, keep: int) -> Tensor:
    """A new buffer of the same size that begins with the last `keep` tokens."""
    fresh = torch.empty_like(held, memory_format=torch.contiguous_format)
    fresh[:, :, :keep] = held[:, :, held.shape[2] - keep :]
    return fresh
