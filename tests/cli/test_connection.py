from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import typer

from tools.bootstrap.layout import Layout
from tools.bootstrap.locking import exclusive
from tools.cli.connection import endpoint_from
from tools.client.address import Protocol
from tools.serving.instance import InstanceFiles


class Checkout:
    """A checkout with instances that were started, and perhaps still run."""

    def __init__(self, home: Path, locks: ExitStack) -> None:
        self.layout = Layout(home)
        self._locks = locks

    def has(self, port_base: int, *, running: bool) -> None:
        files = InstanceFiles.at(port_base, self.layout)
        files.folder.mkdir(parents=True)
        files.state.write_text("{}", encoding="utf-8")
        if running:
            self._locks.enter_context(exclusive(files.lock, lambda _: None))


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Checkout]:
    with ExitStack() as locks:
        checkout = Checkout(tmp_path, locks)
        monkeypatch.setattr(Layout, "of_this_checkout", lambda: checkout.layout)
        yield checkout


def default_url() -> str:
    return endpoint_from(None, None, None).url


def test_no_server(checkout: Checkout) -> None:
    assert default_url() == "grpc://127.0.0.1:8001"


def test_the_one_server_that_runs(checkout: Checkout) -> None:
    checkout.has(8000, running=False)
    checkout.has(18300, running=True)
    checkout.has(18400, running=False)

    assert default_url() == "grpc://127.0.0.1:18301"
    assert endpoint_from(None, None, Protocol.HTTP).url == "http://127.0.0.1:18300"


def test_the_server_at_the_default_ports_comes_first(checkout: Checkout) -> None:
    checkout.has(8000, running=True)
    checkout.has(18300, running=True)

    assert default_url() == "grpc://127.0.0.1:8001"


def test_several_servers_elsewhere(checkout: Checkout) -> None:
    checkout.has(18300, running=True)
    checkout.has(18400, running=True)

    with pytest.raises(typer.BadParameter) as refusal:
        default_url()

    assert str(refusal.value) == (
        "several servers of this checkout are running; give one of 18300, 18400 as --port-base"
    )


def test_what_is_given_is_taken(checkout: Checkout) -> None:
    checkout.has(18300, running=True)

    assert endpoint_from(None, 18400, None).url == "grpc://127.0.0.1:18401"
    assert endpoint_from("http://triton.example:80", None, None).url == "http://triton.example:80"
