"""A mapping whose values are made when somebody first asks for them: most of what a run leaves is never looked at."""

import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Generic, TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")


class Later(Mapping[Key, Value], Generic[Key, Value]):
    """Known keys, each with a function that makes its value once, and is forgotten then with all it held."""

    def __init__(self, makers: dict[Key, Callable[[], Value]]) -> None:
        self._keys = tuple(makers)
        self._makers = dict(makers)
        self._made: dict[Key, Value] = {}
        self._lock = threading.Lock()

    def __getitem__(self, key: Key) -> Value:
        if key not in self._made:
            with self._lock:
                if key not in self._made:
                    self._made[key] = self._makers[key]()
                    del self._makers[key]
        return self._made[key]

    def __iter__(self) -> Iterator[Key]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)

    def __contains__(self, key: object) -> bool:
        return key in self._made or key in self._makers

    def __reduce__(self) -> tuple[Any, ...]:
        """Copied and sent as a plain dict."""
        return dict, (dict(self),)
