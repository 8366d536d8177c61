"""Finding, reading and refusing profiles: every text names the file, the line, the key and what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.spec.loading import DEFAULT_PROFILE, ProfileError, load_profile, parse_profile, shipped_profiles

PROFILES = Path(__file__).parents[2] / "tools" / "spec" / "profiles"


def default_text() -> str:
    return (PROFILES / f"{DEFAULT_PROFILE}.yaml").read_text(encoding="utf-8")


def refused(text: str) -> str:
    with pytest.raises(ProfileError) as caught:
        parse_profile(text, "mine.yaml")
    return str(caught.value)


def refused_change(old: str, new: str) -> str:
    text = default_text()
    assert text.count(old) >= 1, f"the default profile no longer holds {old!r}"
    return refused(text.replace(old, new, 1))


def test_the_default_is_shipped() -> None:
    assert load_profile().name == DEFAULT_PROFILE
    assert DEFAULT_PROFILE in shipped_profiles()


@pytest.mark.parametrize("name", ["a100-llama2-7b", "cpu-smollm2", "h200-llama2-7b"])
def test_a_shipped_profile_loads_under_its_own_name(name: str) -> None:
    assert name in shipped_profiles()
    assert load_profile(name).name == name


def test_an_unknown_name_is_answered_with_the_nearest_and_all_names() -> None:
    with pytest.raises(ProfileError) as caught:
        load_profile("cpu-smolm2")
    assert str(caught.value) == (
        'no profile "cpu-smolm2": did you mean "cpu-smollm2"? shipped profiles are a100-llama2-7b, cpu-smollm2, '
        "h200-llama2-7b; for a file of your own give its path, ending in .yaml"
    )


def test_a_name_like_nothing_gets_no_guess() -> None:
    with pytest.raises(ProfileError) as caught:
        load_profile("zzz")
    assert "did you mean" not in str(caught.value)
    assert "shipped profiles are a100-llama2-7b, cpu-smollm2" in str(caught.value)


def test_a_users_own_file_loads(tmp_path: Path) -> None:
    file = tmp_path / "own.yaml"
    file.write_text(default_text().replace("name: cpu-smollm2", "name: own"), encoding="utf-8")
    assert load_profile(str(file)).name == "own"


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ProfileError, match=r'no profile file ".*absent\.yaml": give the path of a YAML file'):
        load_profile(str(tmp_path / "absent.yaml"))


def test_a_file_that_is_no_text_is_named(tmp_path: Path) -> None:
    file = tmp_path / "binary.yaml"
    file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ProfileError, match=r'profile file ".*binary\.yaml" cannot be read'):
        load_profile(str(file))


def test_errors_name_the_users_path(tmp_path: Path) -> None:
    file = tmp_path / "own.yml"
    file.write_text("name: [", encoding="utf-8")
    with pytest.raises(ProfileError) as caught:
        load_profile(str(file))
    assert str(caught.value).startswith(f"{file}:1: ")


def test_an_unknown_key_is_answered_with_file_line_path_and_the_nearest_key() -> None:
    line = default_text().splitlines().index("        max_queue_size: 64") + 1
    block = default_text().splitlines().index("      default_queue_policy:") + 1
    assert block < line
    assert refused_change("max_queue_size: 64", "max_que_size: 64") == (
        f"mine.yaml:{block}: variants.llm_baseline.dynamic_batching.default_queue_policy: "
        'unknown key "max_que_size": did you mean "max_queue_size"?'
    )


def test_an_unknown_key_like_nothing_is_answered_with_all_keys() -> None:
    assert refused_change("name: cpu-smollm2", "name: cpu-smollm2\nzzzzz: 1") == (
        'mine.yaml:1: unknown key "zzzzz": '
        "known keys: name, target, model, artifacts, limits, sla, quality, environment, release, variants"
    )


def test_several_unknown_keys_are_reported_at_once() -> None:
    text = refused_change("  family: llama", "  familly: llama\n  vocabsize: 1")
    assert 'unknown key "familly": did you mean "family"?; unknown key "vocabsize": did you mean "vocab_size"?' in text


def test_errors_in_several_places_are_reported_at_once() -> None:
    text = default_text().replace("hidden_size: 576", "hidden_size: -1", 1)
    text = text.replace("max_tokens: 1024", "max_tokenz: 1", 1)
    assert [line.split(": ")[1] for line in refused(text).splitlines()] == ["model.hidden_size", "limits"]


def test_a_missing_key_is_named_with_its_path() -> None:
    assert refused_change("  vocab_size: 49152\n", "").endswith("model.vocab_size: this key is required")


def test_a_missing_key_below_a_variants_kind_is_named_as_written() -> None:
    text = refused_change("        attention: eager\n", "")
    assert text.endswith("variants.llm_baseline.versions.1.attention: this key is required")
    line = default_text().splitlines().index("      1:") + 1
    assert text.startswith(f"mine.yaml:{line}: ")


def test_an_unknown_kind_is_answered_with_the_known_ones() -> None:
    text = refused_change("kind: baseline", "kind: base")
    assert "variants.llm_baseline" in text
    assert "'baseline', 'vllm'" in text


def test_a_key_given_twice_is_refused() -> None:
    text = refused_change("  family: llama", "  family: llama\n  family: qwen")
    line = default_text().splitlines().index("  family: llama") + 2
    assert text == f'mine.yaml:{line}: key "family" is given twice'


def test_broken_yaml_is_refused_with_its_line() -> None:
    assert refused("name: x\n\ttarget: 1\n").startswith("mine.yaml:2: ")


@pytest.mark.parametrize(("text", "kind"), [("", "nothing"), ("- a\n", "a list"), ("words\n", "a str")])
def test_a_file_that_is_no_mapping_is_refused(text: str, kind: str) -> None:
    assert refused(text) == f"mine.yaml: a profile is a mapping of keys to values, this file holds {kind}"


def test_no_type_is_coerced() -> None:
    assert "model.hidden_size" in refused_change("hidden_size: 576", 'hidden_size: "576"')
    assert "variants.llm_baseline.versions.1.batching" in refused_change("batching: false", "batching: 0")


@pytest.mark.slow
def test_yaml_without_a_bottom_is_refused() -> None:
    assert refused("name: " + "[" * 1_000) == "mine.yaml: it is nested too deeply for a profile: four levels are enough"
