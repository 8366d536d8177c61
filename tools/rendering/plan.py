"""Which files a profile becomes, and what each of them says. Pure: nothing is read from or written to the disk."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Final

from tools.release.file import FILE_NAME, release_yaml
from tools.spec import contract
from tools.spec.limits import Limits
from tools.spec.profile import Profile
from tools.spec.variants import BaselineVariant, VllmVariant

from .environment import template_environment

MODEL_REPOSITORY: Final = PurePosixPath("model_repository")
ENSEMBLES: Final = PurePosixPath("ensembles")
# The release router: what clients talk to.
ROUTER: Final = "chat"
REPOSITORIES: Final = (MODEL_REPOSITORY, ENSEMBLES)

# Python cannot make a directory where a file lies, see templates/bytecode_block.j2.
BYTECODE_BLOCK: Final = "__pycache__"


@dataclass(frozen=True, slots=True)
class Target:
    """One file to render: `path` relative to the root, a template, and the template's variables."""

    path: PurePosixPath
    template: str
    variables: Mapping[str, Any]


def rendered_files(profile: Profile) -> dict[PurePosixPath, str]:
    """Text of every file of the profile, by path relative to the root. The same profile gives the same bytes.

    Raises jinja2.UndefinedError when a template uses a name that nothing defines.
    """
    environment = template_environment()
    files = {}
    for target in _targets(profile):
        variables = {"profile": profile, "template": target.template, **target.variables}
        files[target.path] = environment.get_template(target.template).render(variables)
    return files


def chat_name(variant: str) -> str:
    """Name of the ensemble in front of `llm_<name>`."""
    return "chat_" + variant.removeprefix("llm_")


def _targets(profile: Profile) -> Iterator[Target]:
    yield from _tokenizer(profile)
    yield from _router(profile)
    for name, variant in profile.enabled_variants.items():
        if isinstance(variant, BaselineVariant):
            yield from _baseline(profile, name, variant)
            yield from _ensemble(name, contract.BASELINE_INPUTS, contract.BASELINE_OUTPUTS)
        else:
            yield from _vllm(profile, name, variant)
            yield from _ensemble(name, contract.VLLM_INPUTS, contract.VLLM_OUTPUTS)


def _baseline(profile: Profile, name: str, variant: BaselineVariant) -> Iterator[Target]:
    folder = MODEL_REPOSITORY / name
    yield Target(
        folder / "config.pbtxt",
        "llm_baseline/config.pbtxt.j2",
        {
            "name": name,
            "variant": variant,
            "inputs": contract.BASELINE_INPUTS,
            "outputs": contract.BASELINE_OUTPUTS,
            "parameters": _engine_parameters(profile, variant),
        },
    )
    for number, version in variant.versions.items():
        yield from _python_version(
            folder / str(number), version.model_dump(mode="json"), "tools.backends.baseline.model"
        )


def _vllm(profile: Profile, name: str, variant: VllmVariant) -> Iterator[Target]:
    folder = MODEL_REPOSITORY / name
    yield Target(
        folder / "config.pbtxt",
        "llm_vllm/config.pbtxt.j2",
        {
            "name": name,
            "variant": variant,
            "inputs": contract.VLLM_INPUTS,
            "outputs": contract.VLLM_OUTPUTS,
            "parameters": _engine_parameters(profile, variant),
        },
    )
    for number, arguments in variant.versions.items():
        yield Target(folder / str(number) / "model.json", "model.json.j2", {"arguments": arguments})


def _tokenizer(profile: Profile) -> Iterator[Target]:
    folder = ENSEMBLES / "chat_tokenizer"
    yield Target(
        folder / "config.pbtxt",
        "chat_tokenizer/config.pbtxt.j2",
        {
            "name": folder.name,
            "inputs": contract.TOKENIZER_INPUTS,
            "outputs": contract.TOKENIZER_OUTPUTS,
            "parameters": {
                "MAX_PROMPT_BYTES": str(profile.limits.max_prompt_bytes),
                **_environment_parameter(profile.environment),
            },
        },
    )
    yield from _python_version(folder / "1", _tokenizer_arguments(profile), "tools.backends.tokenizer.model")


def _tokenizer_arguments(profile: Profile) -> dict[str, Any]:
    arguments: dict[str, Any] = {
        "model": profile.artifacts.bf16.path,
        "max_model_len": profile.tokenizer_max_model_len,
    }
    if profile.model.chat_template_file is not None:
        arguments["chat_template"] = profile.model.chat_template_file
    return arguments


def _router(profile: Profile) -> Iterator[Target]:
    folder = ENSEMBLES / ROUTER
    yield Target(
        folder / "config.pbtxt",
        "chat/config.pbtxt.j2",
        {
            "name": ROUTER,
            "inputs": contract.ROUTER_INPUTS,
            "outputs": contract.ROUTER_OUTPUTS,
            "parameters": {
                "RELEASE_FILE": FILE_NAME,
                "MAX_PROMPT_BYTES": str(profile.limits.max_prompt_bytes),
                **_environment_parameter(profile.environment),
            },
        },
    )
    yield Target(folder / FILE_NAME, "chat/release.yaml.j2", {"release": release_yaml(profile.start_release)})
    yield from _python_version(folder / "1", _tokenizer_arguments(profile), "tools.backends.router.model")


def _ensemble(
    engine: str, engine_inputs: tuple[contract.Tensor, ...], engine_outputs: tuple[contract.Tensor, ...]
) -> Iterator[Target]:
    name = chat_name(engine)
    folder = ENSEMBLES / name
    yield Target(
        folder / "config.pbtxt",
        "chat_ensemble/config.pbtxt.j2",
        {
            "name": name,
            "engine": engine,
            "inputs": contract.chat_inputs(engine_inputs),
            "outputs": engine_outputs,
            "tokenizer_inputs": contract.TOKENIZER_INPUTS,
            "tokenizer_to_engine": contract.TOKENIZER_TO_ENGINE,
            "options": contract.chat_options(engine_inputs),
        },
    )
    yield Target(folder / "1" / ".gitkeep", "chat_ensemble/gitkeep.j2", {})


def _python_version(folder: PurePosixPath, arguments: Mapping[str, Any], module: str) -> Iterator[Target]:
    yield Target(folder / "model.json", "model.json.j2", {"arguments": arguments})
    yield Target(folder / "model.py", "model.py.j2", {"module": module})
    yield Target(folder / BYTECODE_BLOCK, "bytecode_block.j2", {})


def _engine_parameters(profile: Profile, variant: BaselineVariant | VllmVariant) -> dict[str, str]:
    return {
        "REPORT_CUSTOM_METRICS": "true",
        **_limit_parameters(profile.limits_of(variant)),
        **_environment_parameter(profile.environment_of(variant)),
    }


def _limit_parameters(limits: Limits) -> dict[str, str]:
    return {
        "MAX_WAITING_REQUESTS": str(limits.max_waiting_requests),
        "MAX_PROMPT_BYTES": str(limits.max_prompt_bytes),
        "MAX_TOKENS_LIMIT": str(limits.max_tokens),
        "DEFAULT_DEADLINE_MS": str(limits.default_deadline_ms),
    }


def _environment_parameter(environment: Mapping[str, str]) -> dict[str, str]:
    return {"ENGINE_ENVIRONMENT": json.dumps(dict(environment), ensure_ascii=False)} if environment else {}
