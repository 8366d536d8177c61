from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tools.artifacts.errors import ArtifactError
from tools.artifacts.manifest import Calibration, Gate, Losses, Manifest, Quantization, Recipe
from tools.artifacts.quantization.recipe import Step
from tools.artifacts.quantization.run import Options
from tools.bootstrap.layout import Layout
from tools.cli import quantize as module
from tools.cli.app import application
from tools.spec.profile import Profile

Quantize = Callable[..., Manifest]


def made(*, passed: bool) -> Manifest:
    return Manifest(
        name="smollm2-135m-instruct-awq",
        source="models/smollm2-135m-instruct",
        source_sha256="0",
        versions={},
        tensors=1,
        dtype="INT4",
        files={},
        quantization=Quantization(
            recipe=Recipe(
                method="autoawq", group_size=64, clip_search=False, sequence_length=512, calibration_tokens=2048
            ),
            calibration=Calibration(sha256="0", texts=31, texts_cut=3, tokens=2048, tokens_left_out=1100),
            losses=Losses(heldout_sha256="0", tokens=1500, original=2.15, rounded=2.37, quantized=2.23),
            device="cpu",
            threads=2,
            seconds=120.4,
            resumed_layers=0,
        ),
        gate=Gate(passed=passed, reasons=("perplexity 8.58 became 9.30",)),
    )


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Runs the command with another function in the place of the quantiser."""

    def run(quantize: Quantize, *arguments: str) -> Result:
        monkeypatch.setattr(module, "provide", lambda *_: None)
        monkeypatch.setattr(module, "quantize", quantize)
        return CliRunner().invoke(application("quantize"), ["quantize", *arguments])

    return run


def test_steps_losses_and_the_verdict_are_shown(run: Callable[..., Result]) -> None:
    def quantize(
        profile: Profile, layout: Layout, report: Callable[[Step], None], options: Options, *, anew: bool
    ) -> Manifest:
        assert (profile.name, options, anew) == ("cpu-smollm2", Options(), False)
        report(Step(phase="quantising", done=3, total=30, seconds_left=61.0))
        return made(passed=True)

    result = run(quantize)
    assert result.exit_code == 0, result.output
    assert "  quantising, 3 of 30 layers, 1:01 left" in result.stderr
    rows = [line.split() for line in result.stderr.splitlines()]
    assert ["original", "2.1500", "8.58"] in rows
    assert ["rounded", "to", "nearest", "2.3700", "10.70"] in rows
    assert ["AWQ", "2.2300", "9.30"] in rows
    text = " ".join(result.stderr.split())
    assert '"smollm2-135m-instruct-awq", made with autoawq, group size 64:' in text
    assert "2048 tokens of 31 texts (3 of them cut, 1100 tokens left out), 120 s on cpu, 2 threads." in text
    assert "Gate passed: perplexity 8.58 became 9.30." in text


def test_a_failed_gate_is_an_exit_code(run: Callable[..., Result]) -> None:
    result = run(lambda *_, **__: made(passed=False))
    assert result.exit_code == 1
    assert "Gate FAILED: perplexity 8.58 became 9.30." in result.stderr


def test_what_the_user_chooses_is_passed_on(run: Callable[..., Result], tmp_path: Path) -> None:
    seen: list[object] = []

    def quantize(_: Profile, __: Layout, ___: object, options: Options, *, anew: bool) -> Manifest:
        seen.extend([options, anew])
        return made(passed=True)

    chosen = ["--method", "llmcompressor", "--calibration", str(tmp_path), "--tokens", "99", "--clip", "--force"]
    assert run(quantize, *chosen).exit_code == 0
    assert seen == [Options("llmcompressor", tmp_path, 99, True), True]


def test_an_error_is_one_line_and_an_interruption_says_what_is_kept(run: Callable[..., Result]) -> None:
    def refuse(*_: object, **__: object) -> Manifest:
        raise ArtifactError('"x" holds no text')

    def interrupt(*_: object, **__: object) -> Manifest:
        raise KeyboardInterrupt

    refused, interrupted = run(refuse), run(interrupt)
    assert (refused.exit_code, refused.stderr) == (1, 'error: "x" holds no text\n')
    assert interrupted.exit_code == 130
    assert interrupted.stderr == "Interrupted. Finished layers are kept, the same command goes on after them.\n"
