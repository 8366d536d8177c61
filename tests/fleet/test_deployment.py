from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
import yaml
from pydantic import TypeAdapter, ValidationError
from tritonclient.grpc import service_pb2

from tests.docker.dockerfile import DOCKERFILE
from tests.fleet.gateway_api import Gateway, GrpcRoute, HttpRoute
from tools.bootstrap.environments import FLEET
from tools.bootstrap.layout import Layout
from tools.fleet.deployment import (
    CANARY,
    GRPC_METHODS,
    KUBERNETES,
    MONITORING,
    STABLE,
    WAITING,
    Deployment,
    PodTrack,
    deployment_files,
)
from tools.lint import lint_repositories
from tools.rendering.files import differences
from tools.spec.loading import load_profile
from tools.wire import release_metrics
from tools.wire.metric_names import METRICS

ROOT = Layout.of_this_checkout().home
DOCKER = ROOT / "docker"
PROFILE = load_profile("a100-llama2-7b")
FILES = deployment_files(Deployment(), PROFILE)
GATEWAY_API: TypeAdapter[Gateway | HttpRoute | GrpcRoute] = TypeAdapter(Gateway | HttpRoute | GrpcRoute)


def objects(name: str, files: dict[PurePosixPath, str] = FILES) -> dict[str, Any]:
    """The objects of a manifest by kind."""
    return {found["kind"]: found for found in yaml.safe_load_all(files[KUBERNETES / name])}


def routes(files: dict[PurePosixPath, str] = FILES) -> tuple[Gateway, HttpRoute, GrpcRoute]:
    gateway, http, grpc = (
        GATEWAY_API.validate_python(found) for found in yaml.safe_load_all(files[KUBERNETES / "gateway.yaml"])
    )
    assert isinstance(gateway, Gateway)
    assert isinstance(http, HttpRoute)
    assert isinstance(grpc, GrpcRoute)
    return gateway, http, grpc


def test_the_committed_files_are_fresh() -> None:
    assert differences(FILES, DOCKER) == []


def test_all_manifests_are_applied() -> None:
    listed = yaml.safe_load(FILES[KUBERNETES / "kustomization.yaml"])["resources"]
    # That one is no object, but values of a chart.
    expected = {path.name for path in FILES if path.parent == KUBERNETES} - {
        "kustomization.yaml",
        "prometheus-adapter.yaml",
    }
    assert set(listed) == expected
    assert len(listed) == len(expected)


@pytest.mark.slow
@pytest.mark.usefixtures("envoy")
@pytest.mark.parametrize("version", ["1.31", "1.37"])
def test_kubernetes_schemas_accept_the_core_kinds(tmp_path: Path, version: str) -> None:
    assert kubernetes_validate(tmp_path, FILES[KUBERNETES / "stable.yaml"], version) == 0
    assert kubernetes_validate(tmp_path, FILES[KUBERNETES / "canary.yaml"], version) == 0
    assert kubernetes_validate(tmp_path, FILES[KUBERNETES / "models.yaml"], version) == 0
    wrong = FILES[KUBERNETES / "stable.yaml"].replace("minReplicas", "minimumReplicas")
    assert kubernetes_validate(tmp_path, wrong, version) != 0


def kubernetes_validate(folder: Path, text: str, version: str) -> int:
    file = folder / "manifest.yaml"
    file.write_text(text, encoding="utf-8")
    program = Layout.of_this_checkout().environment(FLEET.name) / "bin" / "kubernetes-validate"
    return subprocess.run([program, "--strict", "--quiet", "-k", version, file], check=False).returncode


def test_the_lint_finds_nothing_in_the_autoscalers() -> None:
    report = lint_repositories([ROOT / "model_repository", ROOT / "ensembles", DOCKER / "kubernetes"])
    assert [finding for finding in report.findings if "kubernetes" in str(finding.place.path)] == []
    assert WAITING in METRICS


@pytest.mark.parametrize("percent", [0.0, 0.1, 25.0, 100.0])
def test_both_routes_have_the_same_weights_in_tenths_of_a_percent(percent: float) -> None:
    _, http, grpc = routes(deployment_files(Deployment(canary_percent=percent), PROFILE))
    expected = {"ladder-stable": 1000 - round(10 * percent), "ladder-canary": round(10 * percent)}
    for rules in (http.spec.rules, grpc.spec.rules):
        assert {backend.name: backend.weight for backend in rules[0].backend_refs} == expected


def test_a_share_that_is_no_tenth_of_a_percent_is_refused() -> None:
    with pytest.raises(ValidationError, match=r"0.25 % is no multiple of 0.1 %"):
        Deployment(canary_percent=0.25)


def test_a_track_that_cannot_grow_to_its_size_is_refused() -> None:
    with pytest.raises(ValidationError, match=r'at most 2 pods of "stable" are fewer than 3, the fewest'):
        PodTrack(name=STABLE, image="i", servers=3, most_servers=2)


def test_routes_have_a_listener_each_and_reach_ports_that_the_services_have() -> None:
    gateway, http, grpc = routes()
    listeners = {listener.name: listener.port for listener in gateway.spec.listeners}
    # Without host names that tell them apart, the two kinds may not share one.
    assert (http.spec.parent_refs[0].section_name, grpc.spec.parent_refs[0].section_name) == ("http", "grpc")
    assert set(listeners) == {"http", "grpc"}
    for track in (STABLE, CANARY):
        service = objects(f"{track}.yaml")["Service"]
        ports = {port["port"]: port for port in service["spec"]["ports"]}
        assert {backend.port for backend in http.spec.rules[0].backend_refs} == {8000} < ports.keys()
        assert {backend.port for backend in grpc.spec.rules[0].backend_refs} == {8001} < ports.keys()
        assert ports[8001]["appProtocol"] == "kubernetes.io/h2c"


def test_streams_have_no_timeout_and_lose_the_header_that_ends_servers() -> None:
    _, http, grpc = routes()
    assert http.spec.rules[0].timeouts.request == "0s"
    for rules in (http.spec.rules, grpc.spec.rules):
        assert rules[0].filters[0].request_header_modifier.remove == ["triton_grpc_error"]


def test_routed_methods_exist_and_change_no_single_server() -> None:
    known = {method.name for method in service_pb2.DESCRIPTOR.services_by_name["GRPCInferenceService"].methods}
    assert set(GRPC_METHODS) <= known
    assert not [name for name in GRPC_METHODS if re.search("Load|SharedMemory|Setting", name)]
    _, http, grpc = routes()
    assert [match.method.method for match in grpc.spec.rules[0].matches] == list(GRPC_METHODS)
    prefixes = {match.path.value for match in http.spec.rules[0].matches if match.path.type == "PathPrefix"}
    assert prefixes == {"/v2/models", "/v2/health"}


@pytest.mark.parametrize("track", [STABLE, CANARY])
def test_objects_of_a_track_speak_of_the_same_pods(track: str) -> None:
    found = objects(f"{track}.yaml")
    deployment = found["Deployment"]["spec"]
    labels = deployment["template"]["metadata"]["labels"]
    assert labels["app.kubernetes.io/component"] == track
    for selector in (
        deployment["selector"]["matchLabels"],
        found["Service"]["spec"]["selector"],
        found["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"],
    ):
        assert selector == labels
    scaler = found["HorizontalPodAutoscaler"]["spec"]
    assert scaler["scaleTargetRef"]["name"] == found["Deployment"]["metadata"]["name"] == f"ladder-{track}"
    # Every apply would undo what the autoscaler has done.
    assert "replicas" not in deployment


def test_a_pod_that_leaves_has_the_time_that_it_needs() -> None:
    pod = objects("stable.yaml")["Deployment"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    pause_s = int(container["lifecycle"]["preStop"]["exec"]["command"][1])
    (exit_s,) = re.findall(r"--exit-timeout-secs=(\d+)", DOCKERFILE.read_text(encoding="utf-8"))
    assert pod["terminationGracePeriodSeconds"] > pause_s + int(exit_s)
    # What notices that the pod leaves has to be quicker than the pause.
    assert container["readinessProbe"]["periodSeconds"] < pause_s


def test_the_container_fits_the_image() -> None:
    pod = objects("stable.yaml")["Deployment"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    dockerfile = DOCKERFILE.read_text(encoding="utf-8")
    user = pod["securityContext"]
    assert f"USER {user['runAsUser']}:{user['runAsGroup']}" in dockerfile
    assert "WORKDIR /workspace/ladder\n" in dockerfile
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert mounts.keys() == {volume["name"] for volume in pod["volumes"]}
    assert mounts["models"] == "/workspace/ladder/models"
    assert {
        probe: container[probe]["httpGet"]["path"] for probe in ("startupProbe", "readinessProbe", "livenessProbe")
    } == {
        "startupProbe": "/v2/health/ready",
        "readinessProbe": "/v2/health/ready",
        "livenessProbe": "/v2/health/live",
    }
    assert container["resources"]["limits"]["nvidia.com/gpu"] == PROFILE.target.gpus


def test_a_profile_without_a_gpu_asks_for_none() -> None:
    files = deployment_files(Deployment(), load_profile("cpu-smollm2"))
    limits = objects("stable.yaml", files)["Deployment"]["spec"]["template"]["spec"]["containers"][0]["resources"][
        "limits"
    ]
    assert limits == {"memory": "64Gi"}


def test_alerts_and_panels_ask_for_metrics_that_there_are() -> None:
    known = {
        name for name in vars(release_metrics).values() if isinstance(name, str) and name.startswith("ladder_release_")
    }
    for name in ("alerts.yml", "grafana/release.json"):
        text = FILES[MONITORING / name]
        found = {re.sub(r"_bucket$", "", name) for name in re.findall(r"\bladder_release_\w+", text)}
        assert found
        assert found <= known


def test_the_dashboard_is_one_row_with_a_panel_for_everything() -> None:
    dashboard = json.loads(FILES[MONITORING / "grafana" / "release.json"])
    row, *panels = dashboard["panels"]
    assert row["type"] == "row"
    queries = " ".join(target["expr"] for panel in panels for target in panel["targets"])
    for metric in (
        release_metrics.WEIGHT, release_metrics.REQUESTS, release_metrics.IN_FLIGHT, release_metrics.TTFT,
        release_metrics.ITL, release_metrics.ERRORS, release_metrics.FALLBACKS, release_metrics.SHADOW_DIFFERENCES,
    ):  # fmt: skip
        assert metric in queries
    places = {(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels}
    assert len(places) == len(panels) == len({panel["id"] for panel in dashboard["panels"]}) - 1
    assert all(x + panels[0]["gridPos"]["w"] <= 24 for x, _ in places)
    variables = {variable["name"] for variable in dashboard["templating"]["list"]}
    used = set(re.findall(r"\$\{?(\w+)", json.dumps(panels))) - {"__rate_interval"}
    assert used == variables


@pytest.mark.promtool
def test_prometheus_accepts_its_files_and_the_alerts_fire_when_they_should(tmp_path: Path) -> None:
    for words in (
        ["check", "config", str(DOCKER / MONITORING / "prometheus.yml")],
        ["test", "rules", str(Path(__file__).with_name("alerts_test.yml"))],
    ):
        done = subprocess.run(["promtool", *words], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    tested = set(re.findall(r"alertname: (\w+)", Path(__file__).with_name("alerts_test.yml").read_text()))
    assert tested == set(re.findall(r"alert: (\w+)", FILES[MONITORING / "alerts.yml"]))
