from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.planning.sharing import Claim, advised_shares, shortfall
from tools.planning.units import GIB

claims = st.builds(
    lambda fixed, least, more: Claim(fixed, least, least + more),
    st.integers(0, 40 * GIB),
    st.integers(1, 10 * GIB),
    st.integers(0, 200 * GIB),
)
totals = st.integers(1 * GIB, 200 * GIB)


def test_one_engine_gets_all_but_the_headroom_and_what_is_reserved() -> None:
    assert advised_shares(100 * GIB, 8 * GIB, [Claim(13 * GIB, GIB, 50 * GIB)]) == [0.9]


def test_the_rest_is_divided_by_what_they_want() -> None:
    same = Claim(10 * GIB, GIB, 31 * GIB)
    modest = Claim(10 * GIB, GIB, 11 * GIB)
    shares = advised_shares(100 * GIB, 0, [same, modest])
    assert shares == [0.68, 0.3]


def test_what_is_missing_is_said() -> None:
    claims = [Claim(13 * GIB, 2 * GIB, 2 * GIB)] * 2
    assert advised_shares(20 * GIB, GIB, claims) is None
    assert shortfall(20 * GIB, GIB, claims) == pytest.approx(30 * GIB - 0.98 * 20 * GIB + GIB, abs=1)


def test_no_claims_need_no_share() -> None:
    assert advised_shares(20 * GIB, 19 * GIB, []) == []


@given(totals, st.integers(0, 20 * GIB), st.lists(claims, min_size=1, max_size=5))
def test_advised_shares_fit_together_and_start_everybody(total: int, reserved: int, claims: list[Claim]) -> None:
    shares = advised_shares(total, reserved, claims)
    if shares is None:
        assert shortfall(total, reserved, claims) > 0
        return
    assert sum(shares) * total + reserved <= total
    for share, claim in zip(shares, claims, strict=True):
        assert share * total >= (claim.fixed + claim.least) * (1 - 1e-12)


@given(totals, st.integers(0, 20 * GIB), st.lists(claims, max_size=4), claims)
def test_one_more_engine_never_makes_room(total: int, reserved: int, claims: list[Claim], extra: Claim) -> None:
    assert shortfall(total, reserved, [*claims, extra]) >= shortfall(total, reserved, claims)
