from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn.functional import linear, silu

from tools.drafting.architecture import Target, head_config
from tools.drafting.head import Eagle3Head, draft_mask

DRAFT = 32
STEPS = 3
LENGTH = 12


@pytest.fixture
def head(target: Target) -> Eagle3Head:
    torch.manual_seed(1)
    return Eagle3Head(head_config(target, DRAFT)).double()


def test_rows_draft_as_vllm_does_one_position_after_another(head: Eagle3Head) -> None:
    embeds, aux = torch.randn(1, LENGTH, 64).double(), torch.randn(1, LENGTH, 192).double()
    unrolled = [hidden[0] for hidden in head.unroll(embeds, aux, STEPS)]
    for base in range(LENGTH - STEPS):
        for step, hidden in enumerate(_drafted_alone(head, embeds[0], aux[0], base)):
            # transformers rotates and norms in float32.
            torch.testing.assert_close(unrolled[step][base], hidden, rtol=0, atol=1e-5)


def test_a_row_sees_no_later_feature(head: Eagle3Head) -> None:
    embeds, aux = torch.randn(1, LENGTH, 64).double(), torch.randn(1, LENGTH, 192).double()
    changed = aux.clone()
    changed[0, 6] += 1
    for before, after in zip(head.unroll(embeds, aux, STEPS), head.unroll(embeds, changed, STEPS), strict=True):
        assert torch.equal(before[0, :6], after[0, :6])
        assert not torch.allclose(before[0, 6:], after[0, 6:])


def test_mask_of_the_second_step_adds_only_the_rows_own_draft() -> None:
    assert draft_mask(3, 1).int().tolist() == [[1, 0, 0, 1, 0, 0], [1, 1, 0, 0, 1, 0], [1, 1, 1, 0, 0, 1]]


def test_tensors_have_the_names_and_shapes_that_vllm_loads(head: Eagle3Head) -> None:
    shapes = {name: tuple(tensor.shape) for name, tensor in head.state_dict().items()}
    assert shapes == {
        "d2t": (DRAFT,),
        "t2d": (340,),
        "fc.weight": (64, 192),
        "lm_head.weight": (DRAFT, 64),
        "norm.weight": (64,),
        "midlayer.input_layernorm.weight": (64,),
        "midlayer.hidden_norm.weight": (64,),
        "midlayer.post_attention_layernorm.weight": (64,),
        "midlayer.self_attn.q_proj.weight": (64, 128),
        "midlayer.self_attn.k_proj.weight": (32, 128),
        "midlayer.self_attn.v_proj.weight": (32, 128),
        "midlayer.self_attn.o_proj.weight": (64, 64),
        "midlayer.mlp.gate_proj.weight": (128, 64),
        "midlayer.mlp.up_proj.weight": (128, 64),
        "midlayer.mlp.down_proj.weight": (64, 128),
    }


def test_vocabulary_mapping_gives_the_targets_ids(head: Eagle3Head) -> None:
    ids = torch.arange(0, 3 * DRAFT, 3)
    lm_head = torch.randn(340, 64).double()
    head.begin_from(ids, lm_head, torch.ones(64))
    assert torch.equal(head.draft_ids, ids)
    assert torch.equal(head.t2d.nonzero().flatten(), ids)
    assert torch.equal(head.lm_head.weight, lm_head[ids])


def _drafted_alone(head: Eagle3Head, embeds: Tensor, aux: Tensor, base: int) -> list[Tensor]:
    """What vLLM computes for one request whose last verified position is `base`: a prefill, then one row a step.

    Written from vLLM's llama_eagle3.py and llm_base_proposer.py with nothing of the head but its weights.
    """
    weights = dict(head.named_parameters())
    features = linear(aux, weights["fc.weight"])
    keys: list[Tensor] = []
    values: list[Tensor] = []
    outputs = []
    for position in range(base + 1):
        hidden = _one_position(weights, embeds[position + 1], features[position], position, keys, values)
    for step in range(STEPS):
        outputs.append(_norm(hidden, weights["norm.weight"]))
        position = base + step + 1
        if step + 1 < STEPS:
            hidden = _one_position(weights, embeds[position + 1], hidden, position, keys, values)
    return outputs


def _one_position(
    weights: dict[str, Tensor], embed: Tensor, hidden: Tensor, position: int, keys: list[Tensor], values: list[Tensor]
) -> Tensor:
    def layer(name: str) -> Tensor:
        return weights[f"midlayer.{name}.weight"]

    x = torch.cat([_norm(embed, layer("input_layernorm")), _norm(hidden, layer("hidden_norm"))])
    query = _rotated(linear(x, layer("self_attn.q_proj")).view(4, 16), position)
    keys.append(_rotated(linear(x, layer("self_attn.k_proj")).view(2, 16), position))
    values.append(linear(x, layer("self_attn.v_proj")).view(2, 16))
    mixed = []
    for head_number in range(4):
        scores = torch.stack([key[head_number // 2] @ query[head_number] for key in keys]) / 16**0.5
        mixed.append(scores.softmax(0) @ torch.stack([value[head_number // 2] for value in values]))
    hidden = hidden + linear(torch.cat(mixed), layer("self_attn.o_proj"))
    x = _norm(hidden, layer("post_attention_layernorm"))
    gated = silu(linear(x, layer("mlp.gate_proj"))) * linear(x, layer("mlp.up_proj"))
    return hidden + linear(gated, layer("mlp.down_proj"))


def _norm(x: Tensor, weight: Tensor) -> Tensor:
    return x / (x.pow(2).mean() + 1e-6).sqrt() * weight


def _rotated(x: Tensor, position: int) -> Tensor:
    frequencies = 10000.0 ** (-torch.arange(8).double() / 8)
    cos, sin = (position * frequencies).cos(), (position * frequencies).sin()
    first, second = x[:, :8], x[:, 8:]
    return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=1)
