from __future__ import annotations

import torch
from transformers import AutoModelForCausalLM

from tests.drafting.examples import conversation
from tools.drafting.architecture import Target
from tools.drafting.batches import collate
from tools.drafting.features import Teacher


def test_aux_layers_are_what_goes_into_the_layers_that_vllm_names(target: Target) -> None:
    assert target.aux_layers == (2, 3, 3)
    assert Target(target.folder, {**target.config, "num_hidden_layers": 30}).aux_layers == (2, 15, 27)
    batch = collate([conversation(1)], steps=3)
    lesson = Teacher(target.folder, (0, 2, 3), "cpu").teach(batch, torch.arange(8))
    model = AutoModelForCausalLM.from_pretrained(str(target.folder), dtype=torch.float32)
    entered: dict[int, torch.Tensor] = {}
    for number, layer in enumerate(model.model.layers):
        layer.register_forward_pre_hook(lambda _, inputs, number=number: entered.update({number: inputs[0]}))
    with torch.no_grad():
        model(batch.tokens)
    torch.testing.assert_close(lesson.aux, torch.cat([entered[0], entered[2], entered[3]], dim=-1))
    torch.testing.assert_close(lesson.embeds, entered[0])


def test_probabilities_are_the_targets_own_at_the_counted_positions(target: Target) -> None:
    batch = collate([conversation(1), conversation(2, length=20)], steps=3)
    ids = torch.tensor([3, 50, 200])
    lesson = Teacher(target.folder, target.aux_layers, "cpu").teach(batch, ids)
    model = AutoModelForCausalLM.from_pretrained(str(target.folder), dtype=torch.float32)
    with torch.no_grad():
        expected = model(batch.tokens).logits[batch.rows, batch.columns].softmax(-1)
    torch.testing.assert_close(lesson.probabilities, expected[:, ids])
    assert torch.equal(lesson.choices, expected.argmax(-1))
