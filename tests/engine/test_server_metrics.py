"""What the engine counts, and who is told."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.engine.peer import Peer
from tests.engine.running import HeldAdapter, eventually, request, serving
from tools.engine import server as server_module
from tools.engine.limits import Limits
from tools.wire.messages import Cancel, Metrics, Ping, Pong
from tools.wire.metric_names import METRICS, SECONDS, Kind

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def _push_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "METRICS_INTERVAL_S", 0.01)


class Scrape:
    """Everything that pushes have told so far."""

    def __init__(self) -> None:
        self.counters: Counter[str] = Counter()
        self.gauges: dict[str, float] = {}
        self.observations: dict[str, list[float]] = {}
        self.buckets: dict[str, list[int]] = {}
        self.sums: Counter[str] = Counter()

    def add(self, metrics: Metrics) -> None:
        for sample in metrics.samples:
            name = f"{sample.name}{{{sample.label}}}" if sample.label else sample.name
            match METRICS[sample.name].kind:
                case Kind.COUNTER:
                    assert sample.value > 0, "only increases are worth a sample"
                    self.counters[name] += int(sample.value)
                case Kind.GAUGE:
                    self.gauges[name] = sample.value
                case Kind.HISTOGRAM:
                    self.observations.setdefault(name, []).extend(sample.observations)
                case Kind.STEP_HISTOGRAM:
                    before = self.buckets.get(name, [0] * len(sample.bucket_counts))
                    self.buckets[name] = [a + b for a, b in zip(before, sample.bucket_counts, strict=True)]
                    self.sums[name] += sample.value


async def scrape_until(peer: Peer, scrape: Scrape, name: str, value: float) -> Scrape:
    """Read pushes until the named counter or gauge has the value."""
    while {**scrape.counters, **scrape.gauges}.get(name) != value:
        scrape.add(await peer.expect(Metrics))
    return scrape


async def test_counts_agree_with_what_the_client_saw(socket: str) -> None:
    async with serving(socket, {"tokens_per_step": 2}) as engine, engine.peer() as peer:
        await peer.hello(metrics=True)
        await peer.submit(*[request(key, "a b c", max_tokens=10, stream=key % 2 == 0) for key in range(6)])
        await peer.submit(request(6, "a b", max_tokens=4, n=3))
        for key in range(7):
            await peer.ended(key)
        scrape = await scrape_until(peer, Scrape(), "vllm:request_success_total{length}", 9)
        tokens = sum(sum(delta.token_counts) for deltas in peer.deltas.values() for delta in deltas)
        assert tokens == 6 * 10 + 12
        assert scrape.counters == {
            "vllm:generation_tokens_total": tokens,
            "vllm:prompt_tokens_total": 6 * 3 + 2,
            "vllm:request_success_total{length}": 9,
        }
        assert sorted(scrape.observations["vllm:request_generation_tokens"]) == [10] * 6 + [12]
        assert sorted(scrape.observations["vllm:request_prompt_tokens"]) == [2] + [3] * 6
        assert sorted(scrape.observations["vllm:request_params_n"]) == [1] * 6 + [3]
        for name in (
            "vllm:time_to_first_token_seconds",
            "vllm:e2e_request_latency_seconds",
            "vllm:request_queue_time_seconds",
            "vllm:request_time_per_output_token_seconds",
        ):
            assert len(scrape.observations[name]) == 7
            assert min(scrape.observations[name]) >= 0
        for name in ("vllm:inter_token_latency_seconds", "vllm:time_per_output_token_seconds"):
            # 5 steps of 2 tokens have 4 pauses between them, 2 steps have 1.
            assert sum(scrape.buckets[name]) == 6 * 4 + 1
            assert len(scrape.buckets[name]) == len(SECONDS) + 1
            assert scrape.sums[name] > 0


async def test_gauges_say_who_runs_and_who_waits(socket: str) -> None:
    adapter = HeldAdapter({"max_num_seqs": 2})
    async with serving(socket, adapter=adapter) as engine, engine.peer() as peer:
        await peer.hello(metrics=True)
        await peer.submit(*[request(key, "hold") for key in range(3)])
        await peer.submit(*[request(key, "hold") for key in range(3, 7)], together=True)
        scrape = await scrape_until(peer, Scrape(), "vllm:num_requests_waiting", 4)
        assert scrape.gauges == {
            "vllm:num_requests_running": 3,
            "vllm:num_requests_waiting": 4,
            "ladder_requests_running": 3,
            "ladder_requests_waiting": 4,
        }
        adapter.gate.set()
        for name in list(scrape.gauges):
            await scrape_until(peer, scrape, name, 0)


async def test_every_way_to_end_badly_is_counted(socket: str) -> None:
    adapter = HeldAdapter({"max_num_seqs": 1})
    limits = Limits(max_waiting_requests=2)
    async with serving(socket, adapter=adapter, limits=limits) as engine, engine.peer() as peer:
        await peer.hello(metrics=True)
        await peer.submit(request(1, "hold"), request(2, "hold", timeout_us=20_000))
        await peer.submit(request(3, "hold"), request(4), request(5), request(6))
        await peer.ended(6)
        await peer.ended(2)
        await peer.send(Cancel([1, 3]))
        await peer.submit(request(7, max_tokens=0))
        for key in (1, 3, 7):
            await peer.ended(key)
        scrape = await scrape_until(peer, Scrape(), "ladder_requests_rejected_total{invalid}", 1)
        assert {name: count for name, count in scrape.counters.items() if name.startswith("ladder_")} == {
            "ladder_requests_rejected_total{queue_full}": 2,
            "ladder_requests_rejected_total{invalid}": 1,
            "ladder_requests_deadline_exceeded_total": 1,
            "ladder_requests_cancelled_total": 2,
        }


async def test_only_the_peer_that_asked_is_told(socket: str) -> None:
    async with serving(socket) as engine, engine.peer("stub") as stub, engine.peer("router") as router:
        await stub.hello(metrics=True)
        await router.hello()
        await router.submit(request(1, max_tokens=3))
        await router.ended(1)
        await scrape_until(stub, Scrape(), "vllm:generation_tokens_total", 3)
        await router.send(Ping(1))
        await router.expect(Pong)
        assert router.others == []


async def test_nothing_piles_up_while_nobody_asks(socket: str) -> None:
    async with serving(socket) as engine, engine.peer() as peer:
        await peer.hello()
        await peer.submit(*[request(key) for key in range(50)])
        for key in range(50):
            await peer.ended(key)
        await eventually(lambda: not engine.server._accounting._observations)


async def test_a_stub_that_has_just_come_learns_every_gauge(socket: str) -> None:
    async with serving(socket) as engine:
        for name in ("first", "second"):
            async with engine.peer(name) as peer:
                await peer.hello(metrics=True)
                scrape = Scrape()
                await scrape_until(peer, scrape, "vllm:num_requests_running", 0)
                assert len(scrape.gauges) == 4


async def test_requests_of_a_lost_peer_count_as_cancelled(socket: str) -> None:
    async with serving(socket, {"step_s": 0.002}) as engine, engine.peer("stub") as stub:
        await stub.hello(metrics=True)
        router = engine.peer("router")
        await router.hello()
        await router.submit(request(1, max_tokens=1_000_000), request(2, max_tokens=1_000_000))
        await router.begun(2)
        router.close()
        await scrape_until(stub, Scrape(), "ladder_requests_cancelled_total", 2)
