from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.client.conftest import serve as serve
from tests.loadtest.users.asking import Asker


@pytest.fixture(scope="package")
def asker() -> Iterator[Asker]:
    """One process for all tests of the transports: starting it takes longer than all it is asked."""
    asker = Asker()
    yield asker
    assert asker.end() == 0
