"""Work that takes long, beside a loop that has to stay quick: loading a model, asking the golden prompts."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Background(Generic[T]):
    """One call in a thread of its own, which does not keep the process from ending."""

    def __init__(self, work: Callable[[], T]) -> None:
        self._work = work
        self._ended = threading.Event()
        self._result: T
        self._error: BaseException | None = None
        threading.Thread(target=self._run, name="release-background", daemon=True).start()

    @property
    def done(self) -> bool:
        return self._ended.is_set()

    def result(self) -> T:
        """What came of it, once it is done. Raises what the call raised."""
        if self._error is not None:
            raise self._error
        return self._result

    def _run(self) -> None:
        try:
            self._result = self._work()
        except BaseException as error:  # noqa: BLE001 - raised again by `result`
            self._error = error
        finally:
            self._ended.set()
