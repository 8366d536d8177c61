"""Autoscalers' manifests: found, parsed with positions, never followed into trouble."""

from __future__ import annotations

from pathlib import Path

from tests.lint.trees import Link, write_tree
from tools.lint.findings import Place
from tools.lint.manifests import find_manifests, parse_manifest, read_manifest

HPA = "kind: HorizontalPodAutoscaler\nmetadata:\n  name: a\nspec:\n  metrics:\n  - type: Pods\n"
PATH = Path("hpa.yaml")


def test_finds_scalers_below_a_folder(tmp_path: Path) -> None:
    write_tree(
        tmp_path,
        {
            "a/hpa.yaml": HPA,
            "b/keda.yml": "kind: ScaledObject\n",
            "service.yaml": "kind: Service\n",
            ".git/hpa.yaml": HPA,
            "notes.txt": HPA,
            "binary.yaml": b"\xff\xfe" + HPA.encode(),
            "loop": Link("."),
        },
    )
    found = [str(manifest.path.relative_to(tmp_path)) for manifest in find_manifests(tmp_path)]
    assert found == ["a/hpa.yaml", "b/keda.yml"]


def test_only_scalers_among_several_documents() -> None:
    manifest = parse_manifest(PATH, f"kind: Service\n---\n{HPA}---\n---\n- a list\n")
    assert [document.name for document in manifest.documents] == ["a"]
    assert manifest.documents[0].at("spec", "metrics", 0, "type") == Place(PATH, 8, 5)
    assert manifest.documents[0].at("spec", "minReplicas") == Place(PATH, 6, 1)


def test_yaml_errors_have_a_place() -> None:
    manifest = parse_manifest(PATH, "kind: HorizontalPodAutoscaler\nspec: [\n")
    assert manifest.problem is not None
    assert manifest.place.line == 3


def test_aliases_that_explode_are_refused() -> None:
    bomb = "a0: &a0 [x]\n" + "".join(f"a{i}: &a{i} [{','.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 12))
    manifest = parse_manifest(PATH, HPA + bomb)
    assert manifest.problem is not None
    assert "YAML alias" in manifest.problem


def test_deep_nesting_is_refused() -> None:
    assert parse_manifest(PATH, HPA + "deep: " + "[" * 600).problem is not None


def test_a_helm_template_is_told_apart(tmp_path: Path) -> None:
    write_tree(tmp_path, {"hpa.yaml": HPA + "  - {{ .Values.x }}\n"})
    manifest = read_manifest(tmp_path / "hpa.yaml")
    assert manifest is not None
    assert manifest.is_template


def test_large_files_are_passed_over(tmp_path: Path) -> None:
    write_tree(tmp_path, {"hpa.yaml": HPA + "#" * 2**20})
    assert read_manifest(tmp_path / "hpa.yaml") is None
