from __future__ import annotations

import json
from pathlib import Path

import pytest

from tools.fleet.errors import FleetError
from tools.fleet.plan import CANARY, STABLE
from tools.fleet.weights import read_weights, runtime_text, shares, weights_in_force, write_weights


@pytest.mark.parametrize("weights", [{CANARY: 12.5, STABLE: 87.5}, {CANARY: 0.1, STABLE: 99.9}])
def test_what_is_written_is_read(tmp_path: Path, weights: dict[str, float]) -> None:
    file = tmp_path / "weights" / "runtime.json"
    write_weights(file, weights)
    assert read_weights(file) == weights
    assert [path.name for path in file.parent.iterdir()] == ["runtime.json"]


def test_both_protocols_get_the_same_in_tenths_of_a_percent() -> None:
    (resource,) = json.loads(runtime_text({CANARY: 2.5, STABLE: 97.5}))["resources"]
    assert resource["layer"] == {
        "fleet.weight.canary_grpc": 25,
        "fleet.weight.canary_http": 25,
        "fleet.weight.stable_grpc": 975,
        "fleet.weight.stable_http": 975,
    }


def test_without_a_file_everything_is_stable(tmp_path: Path) -> None:
    assert read_weights(tmp_path / "none.json") == {STABLE: 100.0}


@pytest.mark.parametrize(
    ("weights", "says"),
    [
        ({CANARY: 10.0, STABLE: 80.0}, "weights make 90 % together, and not 100 %"),
        ({"green": 100.0}, 'no track "green": a fleet has "stable" and "canary"'),
    ],
)
def test_weights_that_cannot_be_are_refused(tmp_path: Path, weights: dict[str, float], says: str) -> None:
    with pytest.raises(FleetError, match=f"^{says}$"):
        write_weights(tmp_path / "runtime.json", weights)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("text", ["", "{}", '{"resources": []}', '{"resources": [{"@type": "x", "name": "y"}]}'])
def test_a_damaged_file_is_named_with_what_writes_it_anew(tmp_path: Path, text: str) -> None:
    file = tmp_path / "runtime.json"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(FleetError, match=r'runtime.json" is not what ./ladder fleet writes'):
        read_weights(file)


def test_the_other_track_takes_what_is_left() -> None:
    assert shares({CANARY: 12.3}) == {CANARY: 12.3, STABLE: 87.7}
    assert shares({STABLE: 100.0}) == {CANARY: 0.0, STABLE: 100.0}
    assert shares({STABLE: 1.0, CANARY: 2.0}) == {STABLE: 1.0, CANARY: 2.0}


def test_a_proxy_that_does_not_answer_has_no_weights(tmp_path: Path) -> None:
    assert weights_in_force(str(tmp_path / "admin.sock")) is None
