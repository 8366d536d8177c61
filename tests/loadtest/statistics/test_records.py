from __future__ import annotations

from loadtest.statistics.ledger import Ledger
from loadtest.statistics.outcome import ErrorKind
from loadtest.statistics.records import Record, Records, read_record, record_line
from tests.loadtest.statistics.examples import HEALTHY, START, Clock, answer, failure, options, run


def test_a_record_is_one_compact_line_that_can_be_read_again() -> None:
    record = Record.of(answer(1.25))
    assert record_line(record) == (
        '{"target":"llm","due_at":1800000001.25,"ttft_ms":100.0,"tpot_ms":50.0,"e2e_ms":1000.0,'
        '"output_tokens":10,"failure":null}'
    )
    assert read_record(record_line(record)) == record


def test_a_failure_has_its_kind_and_no_latency() -> None:
    record = Record.of(failure(kind=ErrorKind.UNKNOWN_MODEL))
    assert (record.ttft_ms, record.tpot_ms, record.e2e_ms) == (None, None, None)
    assert (record.output_tokens, record.failure) == (4, ErrorKind.UNKNOWN_MODEL)
    assert read_record(record_line(record)) == record


def test_records_come_in_the_order_in_which_they_were_due() -> None:
    records = Records()
    for due in (3.0, 1.0, 2.0):
        records.add(answer(due))
    assert [record.due_at - START for record in records.by_due_time()] == [1.0, 2.0, 3.0]


def test_only_so_many_are_kept_and_the_others_counted() -> None:
    """What a worker has handed over takes up its room still, and the master has no more room than a worker."""
    master, worker = Records(most=3), Records(most=2)
    for due in range(3):
        worker.add(answer(due))
    first = worker.drain()
    worker.add(answer(4))
    second = worker.drain()
    for drained in (first, second, ([Record.of(answer(due)) for due in (5, 6)], 0)):
        master.merge(*drained)
    assert [record.due_at - START for record in master.by_due_time()] == [0, 1, 5]
    assert master.left_out == 3


def test_the_result_says_how_many_records_are_missing() -> None:
    clock = Clock()
    worker, master = (Ledger(options(), None, started_at=START, clock=clock) for _ in range(2))
    run(worker, clock, answer(), answer(1))
    message = worker.drain()
    message["records_left_out"] = 7
    master.merge(message)
    assert master.result(seconds=10, client=HEALTHY).records_left_out == 7
    assert len(master.records()) == 2
