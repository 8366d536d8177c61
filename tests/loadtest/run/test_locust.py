"""The whole running test under Locust, as users start it: both loops, distributed, interrupted, from the form."""

from __future__ import annotations

import os
import signal
import socket
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from tests.client.fakes.running import running
from tests.client.fakes.triton import FakeTriton, Say, Seen, Step, WaitForCancel, engine, tokenizer
from tests.loadtest.run.locust_process import PATIENCE_S, Locust, free_port, locust, result_in, slow_triton
from tests.waiting import wait_until
from tools.client.address import Protocol, ServerAddress

pytestmark = pytest.mark.slow

# What the fake models say; an answer of another length than was asked for counts as a failure.
TWO_TOKENS = ("--output-tokens", "2")


@pytest.fixture
def triton() -> FakeTriton:
    return slow_triton()


@pytest.fixture
def server(triton: FakeTriton) -> Iterator[ServerAddress]:
    with running(triton) as address:
        yield address


def http(server: ServerAddress) -> str:
    return server.endpoint(Protocol.HTTP).url


def asked(triton: FakeTriton) -> Counter[str]:
    """Requests that the models got, the chat template's left out."""
    return Counter(seen.model for seen in triton.seen if seen.model != "chat_tokenizer")


def headless(tmp_path: Path, host: str, *arguments: str, targets: str = "quick,slow") -> tuple[int, Locust]:
    """A run to its end."""
    given = (
        "--headless",
        "--only-summary",
        "--host",
        host,
        "--targets",
        targets,
        "--out",
        str(tmp_path / "out"),
        *TWO_TOKENS,
    )
    with locust(tmp_path, *given, *arguments) as process:
        return process.wait(), process


def test_users_ask_exactly_so_many_requests_and_all_files_are_written(
    tmp_path: Path, server: ServerAddress, triton: FakeTriton
) -> None:
    code, process = headless(tmp_path, http(server), "-u", "4", "--requests", "50", "--warmup-requests", "6")
    result = result_in(tmp_path / "out")

    assert code == 0, process.said()
    assert asked(triton).total() == 50
    assert result.warmup_requests == 6
    assert sum(target.requests for target in result.targets) == 44
    assert [target.served_by.keys() for target in result.targets] == [{"quick:1"}, {"slow:1"}]
    assert result.partial == ()
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert {"results.json", "targets.csv", "timeline.csv", "junit.xml", "report.html"} <= names
    # Locust's own table knows the same requests.
    assert "generate_stream quick" in process.said()


def test_an_open_loop_over_grpc_sends_the_same_requests_for_the_same_seed(
    tmp_path: Path, server: ServerAddress, triton: FakeTriton
) -> None:
    host = server.endpoint(Protocol.GRPC).url
    given = ("--protocol", "grpc", "--shape", "rate", "--rate", "40", "--requests", "30", "--seed", "5")
    prompts = []
    for folder in (tmp_path / "first", tmp_path / "second"):
        folder.mkdir()
        code, process = headless(folder, host, *given)
        assert code == 0, process.said()
        prompts.append(Counter(seen.inputs["text_input"][0] for seen in triton.seen if seen.model == "quick"))
        assert asked(triton) == {"quick": 15, "slow": 15}
        triton.seen.clear()

    assert prompts[0] == prompts[1]
    assert result_in(tmp_path / "second" / "out").targets[0].protocol == "grpc"


def test_a_user_class_on_the_command_line_chooses_the_protocol(
    tmp_path: Path, server: ServerAddress, triton: FakeTriton
) -> None:
    code, process = headless(tmp_path, http(server), "--requests", "6", "GenerateUser")

    assert code == 0, process.said()
    assert asked(triton).total() == 6
    assert result_in(tmp_path / "out").targets[0].protocol == "generate"


def test_two_user_classes_are_one_too_many(tmp_path: Path, server: ServerAddress) -> None:
    code, process = headless(tmp_path, http(server), "--requests", "6", "GenerateUser", "GrpcStreamUser")

    assert code == 2
    assert "GenerateUser, GrpcStreamUser speak different protocols, and a run speaks one" in process.said()


def test_a_missed_sla_is_exit_code_1_and_says_what_by_how_much(tmp_path: Path, server: ServerAddress) -> None:
    code, process = headless(tmp_path, http(server), "--requests", "6", "--sla", "ttft_ms=0.001", targets="quick")

    assert code == 1
    assert "quick: SLA missed: ttft_ms: " in process.said()
    assert "ms, the limit is 0.001 ms (missed by " in process.said()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--targets", "quik"), 'did you mean "quick"?'),
        (("--rate", "fast"), '--rate "fast" is no number'),
        (("--workload", "nowhere.yaml"), 'no workload file "nowhere.yaml"'),
        (("--host", "http://127.0.0.1:1"), 'nothing listens at "http://127.0.0.1:1"'),
        (("--protocol", "grpc"), "is an address of http, but protocol"),
    ],
)
def test_what_cannot_run_is_exit_code_2_and_one_sentence(
    tmp_path: Path, server: ServerAddress, arguments: tuple[str, ...], message: str
) -> None:
    code, process = headless(tmp_path, http(server), "--requests", "6", *arguments)

    assert code == 2
    assert message in process.said()
    assert "Traceback" not in process.said()
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("scheme", ["http", "grpc", "https"])
def test_a_server_that_answers_nothing_is_waited_for_aloud_and_not_long(tmp_path: Path, scheme: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as hanging:
        host = f"{scheme}://127.0.0.1:{hanging.getsockname()[1]}"
        protocol = "grpc" if scheme == "grpc" else "generate_stream"
        code, process = headless(tmp_path, host, "--requests", "6", "--protocol", protocol)

    assert code == 2
    assert f'waiting for "{host}" to answer, 2 s so far' in process.said()
    assert "to answer, 6 s so far" not in process.said()
    assert f'"{host}" takes connections and answers nothing within 5 s: its server hangs' in process.said()


def test_a_folder_that_cannot_be_written_is_said_before_anything_is_asked(
    tmp_path: Path, server: ServerAddress, triton: FakeTriton
) -> None:
    (tmp_path / "out").write_text("", encoding="utf-8")
    code, process = headless(tmp_path, http(server), "--requests", "6")

    assert code == 2
    assert f'"{tmp_path}/out" cannot be written' in process.said()
    assert asked(triton).total() == 0


def test_figures_that_nobody_reads_are_written_all_the_same(tmp_path: Path, server: ServerAddress) -> None:
    given = ("--headless", "--host", http(server), "--targets", "quick", "--requests", "6", *TWO_TOKENS)
    quiet = ("--only-summary", "--json-file", str(tmp_path / "locust"))
    out = tmp_path / "out"
    with locust(tmp_path, *given, *quiet, "--out", str(out), stdout=Path("/dev/full")) as process:
        code = process.wait()

    assert code == 0, process.said()
    assert "the figures cannot be printed: no space left on device" in process.said()
    assert "Traceback" not in process.said()
    assert sum(target.requests for target in result_in(out).targets) == 6


def test_a_pipe_whose_reader_has_gone_loses_no_results(tmp_path: Path, server: ServerAddress) -> None:
    given = ("--headless", "--host", http(server), "--targets", "quick", "--requests", "6", *TWO_TOKENS)
    quiet = ("--only-summary", "--json-file", str(tmp_path / "locust"))
    reader, writer = os.pipe()
    os.close(reader)
    with locust(tmp_path, *given, *quiet, "--out", str(tmp_path / "out"), stdout=Path(f"/dev/fd/{writer}")) as process:
        os.close(writer)
        code = process.wait()

    assert code == 0, process.said()
    assert sum(target.requests for target in result_in(tmp_path / "out").targets) == 6


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_keeps_and_marks_what_it_has(tmp_path: Path, number: signal.Signals) -> None:
    with running(slow_triton(0.3)) as server:
        given = ("--headless", "--host", http(server), "--targets", "slow", "-u", "2", "-t", "600", *TWO_TOKENS)
        with locust(tmp_path, *given, "--out", str(tmp_path / "out"), "--stop-timeout", "0") as process:
            process.wait_for("generate_stream slow")
            process.send(number)
            assert process.wait() == 2, process.said()
    result = result_in(tmp_path / "out")

    assert result.targets[0].requests > 0
    assert result.targets[0].failures == {}
    assert result.partial[0].startswith("stopped after ")
    assert result.partial[0].endswith(" s of 600 s")


@pytest.mark.parametrize(
    ("protocol", "counted"), [(Protocol.HTTP, True), (Protocol.GRPC, True), (Protocol.HTTP, False)]
)
def test_what_cut_requests_had_received_counts_unless_it_is_not_known(
    tmp_path: Path, protocol: Protocol, *, counted: bool
) -> None:
    def endless(seen: Seen) -> Sequence[Step]:
        said = [Say("one ", tokens=1), Say("two and three ", tokens=2)] if seen.inputs["stream"][0] else []
        return [*said, WaitForCancel(PATIENCE_S)]

    spoken = {Protocol.GRPC: "grpc", Protocol.HTTP: "generate_stream" if counted else "generate"}[protocol]
    with running(FakeTriton(engine("endless", script=endless), tokenizer())) as server:
        given = ("--host", server.endpoint(protocol).url, "--protocol", spoken, "-u", "3", "-t", "3")
        wait = ("--stop-timeout", "0", "--workload", "en")
        with locust(tmp_path, "--headless", *given, *wait, "--targets", "endless", "--out", str(tmp_path)) as process:
            # None has ended: nothing was measured.
            assert process.wait() == 2, process.said()
    (target,) = result_in(tmp_path).targets

    assert (target.requests, target.cut) == (0, 3)
    assert (target.output_tokens, target.cut_output_tokens) == ((9, 9) if counted else (0, 0))
    assert target.cut_uncounted == (0 if counted else 3)
    assert target.output_tokens_per_s == pytest.approx(target.output_tokens / target.seconds)
    uncounted = "endless: 3 requests were cut before the server had counted their tokens: these are in no figure"
    assert (uncounted in process.said()) is not counted


class Distributed:
    """A master and two workers."""

    def __init__(self, folder: Path, stack: ExitStack, *arguments: str) -> None:
        port = str(free_port())
        bind = ("--master-bind-host", "127.0.0.1", "--master-bind-port", port)
        given = ("--headless", "--only-summary", "--master", "--expect-workers", "2", "--out", str(folder / "out"))
        self.master = stack.enter_context(locust(folder, *given, *bind, *TWO_TOKENS, *arguments))
        connect = ("--worker", "--master-host", "127.0.0.1", "--master-port", port)
        self.workers = [stack.enter_context(locust(folder, *connect, name=f"worker-{number}")) for number in (1, 2)]


def test_two_workers_send_together_exactly_what_was_asked_for(
    tmp_path: Path, server: ServerAddress, triton: FakeTriton
) -> None:
    with ExitStack() as stack:
        run = Distributed(
            tmp_path, stack, "--host", http(server), "--targets", "quick,slow", "-u", "5", "--requests", "60"
        )
        assert run.master.wait() == 0, run.master.said()
        assert [worker.wait() for worker in run.workers] == [0, 0]
    result = result_in(tmp_path / "out")

    assert asked(triton).total() == 60
    assert sum(target.requests for target in result.targets) == 60
    assert result.client.workers == 2


def test_a_worker_that_is_killed_is_said_and_the_rest_is_kept(
    tmp_path: Path, server: ServerAddress, triton: FakeTriton
) -> None:
    with ExitStack() as stack:
        run = Distributed(
            tmp_path,
            stack,
            *("--host", http(server), "--targets", "quick", "--shape", "rate", "--rate", "20", "-t", "12"),
        )
        run.master.wait_for("quick: ")
        run.workers[0].send(signal.SIGKILL)
        assert run.master.wait() == 2, run.master.said()
        assert run.workers[1].wait() == 0
    result = result_in(tmp_path / "out")

    assert " was lost after " in run.master.said()
    assert len(result.partial) == 1
    assert "was lost after" in result.partial[0]
    assert 0 < result.targets[0].requests <= asked(triton)["quick"]
    # The other one took over: something was sent in the last seconds, by when the loss had been noticed.
    assert result.seconds >= 12


def test_the_form_says_what_is_wrong_and_runs_what_is_right(
    tmp_path: Path, server: ServerAddress, triton: FakeTriton
) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    web = ("--web-host", "127.0.0.1", "--web-port", str(port))
    form = {
        "host": http(server),
        "user_count": "2",
        "spawn_rate": "10",
        "targets": "quik",
        "requests": "20",
        "rate": "",
        "output_tokens": "2",
    }
    with locust(tmp_path, *web, "--out", str(tmp_path / "out")) as process:
        wait_until(lambda: answers(url), 60)

        refused = httpx.post(f"{url}/swarm", data=form).json()
        assert refused["success"] is False
        assert 'did you mean "quick"?' in refused["message"]
        assert (
            httpx.post(f"{url}/swarm", data={**form, "seed": "x"}).json()["message"] == '--seed "x" is no whole number'
        )

        for runs in (1, 2):
            started = httpx.post(f"{url}/swarm", data={**form, "targets": "quick,slow", "protocol": "generate"}).json()
            assert started["success"] is True, started
            wait_until(lambda runs=runs: len(list((tmp_path / "out").glob("*/results.json"))) == runs, 60)
            wait_until(lambda: httpx.get(f"{url}/stats/requests").json()["state"] == "stopped", 60)
        process.send(signal.SIGINT)
        assert process.wait() == 0, process.said()

    assert asked(triton).total() == 40
    results = [result_in(path.parent) for path in (tmp_path / "out").glob("*/results.json")]
    assert [sum(target.requests for target in result.targets) for result in results] == [20, 20]
    assert {target.protocol for result in results for target in result.targets} == {"generate"}


def answers(url: str) -> bool:
    try:
        return httpx.get(url).status_code == 200
    except httpx.TransportError:
        return False
