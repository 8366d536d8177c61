from __future__ import annotations

import torch

from tests.artifacts.quantization.worker.packing import pack, pack_columns
from tools.artifacts.quantization.worker.awq_format import dequantize, unpack_columns


def test_columns_lie_in_the_order_of_the_format() -> None:
    # By hand: the lowest four bits hold column 0, then 2, 4, 6, 1, 3, 5, 7.
    word = sum(column << (4 * place) for place, column in enumerate((0, 2, 4, 6, 1, 3, 5, 7)))
    assert unpack_columns(torch.tensor([[word]], dtype=torch.int32)).tolist() == [list(range(8))]


def test_the_sign_bit_is_a_bit_like_the_others() -> None:
    values = torch.full((2, 16), 15)
    assert unpack_columns(pack_columns(values)).tolist() == values.tolist()


def test_a_packed_weight_comes_back_within_half_a_step() -> None:
    torch.manual_seed(0)
    weight = torch.randn(16, 128)
    packed = pack(weight, 64)
    back = dequantize(packed["qweight"], packed["qzeros"], packed["scales"])
    steps = packed["scales"].float().T.repeat_interleave(64, dim=1)
    assert back.shape == weight.shape
    # The zero is rounded as well, so a group's ends may be a whole step off.
    assert bool(((back - weight).abs() <= 1.01 * steps).all())
    assert float((back - weight).abs().mean()) < 0.3 * float(steps.mean())
