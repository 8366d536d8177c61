"""docker/compose.yaml: it parses, agrees with the Dockerfile, and opens nothing to the network."""

from __future__ import annotations

import re
from typing import Any, Literal

import pytest
import yaml
from pydantic import BaseModel, ConfigDict

from tests.docker.dockerfile import COMPOSE, ROOT, build_arguments, environment, instructions, the_one


class Strict(BaseModel):
    """Unknown keys are typing errors: Compose would refuse them, or worse, pass them over."""

    model_config = ConfigDict(extra="forbid")


class Build(Strict):
    context: str
    dockerfile: str
    args: dict[str, str]


class Device(Strict):
    driver: Literal["nvidia"]
    count: str
    capabilities: list[str]


class Reservations(Strict):
    devices: list[Device]


class Resources(Strict):
    reservations: Reservations


class Deploy(Strict):
    resources: Resources


class Healthcheck(Strict):
    test: list[str]
    interval: str
    timeout: str
    start_period: str
    retries: int


class Service(Strict):
    build: Build
    image: str
    init: bool
    ports: list[str]
    volumes: list[str]
    shm_size: str
    ulimits: dict[str, int]
    cap_drop: list[str]
    security_opt: list[str]
    healthcheck: Healthcheck
    stop_grace_period: str
    restart: str
    deploy: Deploy


class Compose(Strict):
    name: str
    services: dict[str, Service]
    volumes: dict[str, Any]


@pytest.fixture(scope="module")
def service() -> Service:
    compose = Compose.model_validate(yaml.safe_load(COMPOSE.read_text(encoding="utf-8")))
    assert list(compose.services) == ["triton"]
    triton = compose.services["triton"]
    named = {volume.split(":")[0] for volume in triton.volumes if not volume.startswith(("$", ".", "/"))}
    assert named == set(compose.volumes)
    return triton


def default(text: str) -> str:
    """`text` with every ${NAME:-default} as it is when NAME is not set."""
    return re.sub(r"\$\{[A-Z_]+:-([^}]*)\}", r"\1", text)


def test_it_builds_the_dockerfile_with_the_same_defaults(service: Service) -> None:
    assert (COMPOSE.parent / service.build.context).resolve() == ROOT
    assert (ROOT / service.build.dockerfile).is_file()
    defaults = build_arguments()
    del defaults["TRITON_RELEASE"]
    assert {name: default(value) for name, value in service.build.args.items()} == defaults


def test_ports_are_bound_to_loopback_and_exposed_by_the_image(service: Service) -> None:
    assert [default(port).split(":") for port in service.ports] == [
        ["127.0.0.1", port, port] for port in the_one("EXPOSE").words
    ]


def test_weights_are_mounted_read_only_where_model_json_looks(service: Service) -> None:
    source, target, mode = default(service.volumes[0]).split(":")
    assert (COMPOSE.parent / source).resolve() == ROOT / "models"
    assert (target, mode) == (f"{environment()['LADDER_HOME']}/models", "ro")


def test_what_engines_compile_is_kept_in_the_users_cache(service: Service) -> None:
    assert service.volumes[1].split(":")[1] == f"{environment()['HOME']}/.cache"


def test_both_health_checks_are_the_same(service: Service) -> None:
    check = the_one("HEALTHCHECK")
    assert service.healthcheck.test == ["CMD", *check.command]
    options = dict(word.removeprefix("--").split("=") for word in check.words if re.match(r"--[a-z-]+=", word))
    assert options == {
        "interval": service.healthcheck.interval,
        "timeout": service.healthcheck.timeout,
        "start-period": service.healthcheck.start_period,
        "retries": str(service.healthcheck.retries),
    }


def test_docker_waits_longer_than_tritonserver_drains(service: Service) -> None:
    [option] = [word for word in the_one("ENTRYPOINT").command if word.startswith("--exit-timeout-secs=")]
    assert int(service.stop_grace_period.removesuffix("s")) > int(option.partition("=")[2])


def test_it_asks_for_one_gpu(service: Service) -> None:
    [device] = service.deploy.resources.reservations.devices
    assert default(device.count) == "1"
    assert "gpu" in device.capabilities


def test_every_variable_is_explained() -> None:
    names = set(re.findall(r"\$\{([A-Z_]+):-", COMPOSE.read_text(encoding="utf-8")))
    readme = (COMPOSE.parent / "README.md").read_text(encoding="utf-8")
    assert {name for name in names if f"`{name}`" not in readme} == set()


def test_the_final_stage_is_the_one_that_serves() -> None:
    assert instructions("FROM")[-1].value == "triton"
