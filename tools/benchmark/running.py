"""A server that runs already, and whether it is the one a measurement would start: a large model loads for minutes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2

from tools.bootstrap.layout import Layout
from tools.client.address import ServerAddress
from tools.serving.instance import Instance, InstanceFiles


@dataclass(frozen=True)
class RunningInstance:
    """Somebody else's server: it is used, and left running."""

    instance: Instance

    @property
    def address(self) -> ServerAddress:
        return ServerAddress.from_port_base(self.instance.port_base)


def running_with(repository: Path, models: Sequence[str], port_base: int, layout: Layout) -> RunningInstance | None:
    """This checkout's server at a port base if it has these models alone, and serves them as `repository` would."""
    files = InstanceFiles.at(port_base, layout)
    if not files.supervised():
        return None
    instance = Instance.read(files)
    if instance is None or instance.phase != "running" or sorted(instance.models) != sorted(models):
        return None
    folders = [Path(folder) for folder in instance.repositories]
    for model in models:
        wanted = _served(repository / model)
        if all(_served(folder / model) != wanted for folder in folders):
            return None
    return RunningInstance(instance)


def _served(folder: Path) -> tuple[str, dict[str, str]] | None:
    """Config and model.json of every version, whichever are loaded of them: with one version there is no choice."""
    config = folder / "config.pbtxt"
    if not config.is_file():
        return None
    message = text_format.Parse(config.read_text(encoding="utf-8"), model_config_pb2.ModelConfig())
    message.ClearField("version_policy")
    versions = {file.parent.name: file.read_text(encoding="utf-8") for file in sorted(folder.glob("*/model.json"))}
    return text_format.MessageToString(message), versions
