"""Probabilities of blocks as words: exact for Balanced, right in expectation for all, at most eight bytes per block."""

from __future__ import annotations

from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.serving.test_propensity import packed

import recurrank as rr
from recurrank._compiled import apart
from recurrank.serving.block_code import EXACT, WAYS, decode, encode, levels_of, rank_of
from recurrank.serving.chances import Chances
from recurrank.serving.events import pack_slates, slate_size, unpack_chances


def block(shares, tried, width):
    """The literal probabilities of a block: its tried item first, its leaders in order below it."""
    probable = [shares[tried]]
    for j in range(1, width):
        before = sum(shares[:j])
        probable.append(1 - before if tried >= j else before)
    return probable


@st.composite
def slates(draw, exact):
    """Marginal and conditional probabilities of a slate of ten positions with one to three blocks."""
    marginal, given = [], []
    widths = draw(st.sampled_from([[10], [1, 9], [5, 5], [3, 4, 3]]))
    for width in widths:
        others = draw(st.integers(0, 3))
        if exact:
            usual, balance = (draw(counts(width + others, 64)) for _ in range(2))
            shares = [(4 * u + b) / EXACT for u, b in zip(usual, balance, strict=True)]
        else:
            total = draw(counts(width + others, 5000))
            shares = [count / 5000 for count in total]
        tried = draw(st.sampled_from([i for i, share in enumerate(shares) if share > 0]))
        probable = block(shares, tried, width)
        if not all(p > 2**-13 for p in probable):  # sums of floats that should be nothing
            probable = [max(p, 2**-13) for p in probable]
        marginal += probable
        given += [probable[0], *[1.0] * (width - 1)]
    return len(widths), np.array(marginal), np.array(given)


@st.composite
def counts(draw, size, total):
    """So many counts that add up to ``total``."""
    cuts = sorted(draw(st.lists(st.integers(0, total), min_size=size - 1, max_size=size - 1)))
    return np.diff([0, *cuts, total]).tolist()


def coded(used, marginal, given, chance=0.5):
    words, last, done = np.zeros((1, len(marginal)), np.int64), np.zeros(1, np.int64), np.zeros(1, np.bool_)
    encode(marginal[None], given[None], np.array([used]), np.array([chance]), WAYS, words, last, done)
    return done[0], words[0, :used], int(last[0])


@given(slates(exact=True))
def test_multiples_of_a_320th_come_back(slate):
    used, marginal, conditional = slate
    marginal, conditional = np.round(marginal * EXACT) / EXACT, np.round(conditional * EXACT) / EXACT
    done, words, last = coded(used, marginal, conditional)
    if done and (marginal > 0).all():
        found, above = decode(words, last, 10, WAYS)
        np.testing.assert_allclose(above, conditional, rtol=2e-3)
        np.testing.assert_allclose(found, marginal, rtol=0.2)
        if used == 1 and (np.diff(marginal[1:]) <= 0).all():  # what is below falls: the tried item is not among the leaders
            np.testing.assert_allclose(found, marginal, rtol=1e-12)


@given(slates(exact=False), st.floats(0, 1, exclude_max=True))
def test_other_probabilities_come_back_nearly(slate, chance):
    used, marginal, conditional = slate
    done, words, last = coded(used, marginal, conditional, chance)
    if done:
        found, above = decode(words, last, 10, WAYS)
        np.testing.assert_allclose(above, conditional, rtol=2e-3)
        np.testing.assert_allclose(found, marginal, rtol=0.2)


def test_their_inverses_are_right_in_expectation():
    shares = np.array([0.11, 0.07, 0.13, 0.05, 0.09, 0.12, 0.08, 0.1, 0.06, 0.09, 0.1])
    marginal = np.array(block(shares.tolist(), 4, 10))
    conditional = np.r_[marginal[0], np.ones(9)]
    inverse = np.zeros(10)
    for chance in (np.arange(2000) + 0.5) / 2000:
        done, words, last = coded(1, marginal, conditional, chance)
        assert done
        inverse += 1 / decode(words, last, 10, WAYS)[0]
    np.testing.assert_allclose(inverse / 2000, 1 / marginal, rtol=1e-4)


@apart
def ranked(levels, back):
    rank = rank_of(levels, 0, len(levels), WAYS)
    levels_of(rank, back, 0, len(levels), WAYS)
    return rank


@given(st.lists(st.integers(0, 300), min_size=1, max_size=8).map(sorted))
def test_sequences_are_ranked_by_binomials(levels):
    back = np.zeros(len(levels), np.int64)
    assert ranked(np.array(levels), back) == sum(comb(level + i, i + 1) for i, level in enumerate(levels))
    assert back.tolist() == levels


@pytest.mark.parametrize("algorithm", ["recurrank", "balanced"])
@pytest.mark.parametrize("rounds", [0, 300, 3000, 30_000])
def test_at_most_eight_bytes_per_block(algorithm, rounds):
    problem = rr.synthetic(items=100, dim=5, seed=0)
    ranker = rr.rankers.make(algorithm, features=problem.features, positions=10, rounds=1_000_000, seed=0)
    if rounds:
        rr.simulate(ranker, rr.clicks.PositionBased(problem.attraction, 1 / np.arange(1, 11)), rounds, seed=1)
    for _ in range(50):
        slate = ranker.rank()
        used = int(np.argmin(slate.marks[:, 0] >= 0)) if (slate.marks[:, 0] < 0).any() else 10
        chances = Chances(slate.propensity[None], np.array([slate.joint]), slate.conditional[None])
        payload = pack_slates(slate.items[None].astype(np.int32), slate.marks[None], np.array([used]), chances)[0]
        assert slate_size(payload, 10) == 40 + 16 * used
        assert len(payload) - slate_size(payload, 10) <= 8 * max(1, used)
        found = unpack_chances(payload, 10)
        np.testing.assert_allclose(found.marginal, slate.propensity, rtol=1e-9 if algorithm == "balanced" else 0.1)
        np.testing.assert_allclose(found.given, slate.conditional, rtol=2e-3)
        assert found.joint == pytest.approx(slate.joint, rel=1e-2)


def test_what_does_not_follow_is_written_out():
    """Half of the slates are uniform of five items; the others show 0, 1, 2."""
    uniform = 0.5 * np.array([1 / 5, 1 / 20, 1 / 60])
    down_to = uniform + 0.5
    marginal, given = np.full(3, 0.5 + 0.1), down_to / np.r_[1, down_to[:-1]]
    payload = packed(marginal, down_to[-1], given=given)
    assert slate_size(payload, 3) == 12
    found = unpack_chances(payload, 3)
    np.testing.assert_allclose(found.marginal, marginal, rtol=2**-11)
    np.testing.assert_allclose(found.given, given, rtol=2**-11)
