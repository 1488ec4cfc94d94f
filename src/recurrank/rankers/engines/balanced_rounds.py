"""A round of Balanced: a choice from tables for each block, and what an answer adds to its data. ``balanced.py`` explains."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from recurrank._arrays import Bools, Floats, Ints
from recurrank._compiled import hot, inner
from recurrank.rankers.engines.placing import show_leaders, show_tried
from recurrank.rankers.engines.propensity import FIRST, WIDTH, one_tried_per_block
from recurrank.rankers.ranker import Buffer

BALANCE, SHARE = 0.2, 2.5
"""The share f of balance rounds, and the multiple of a possible loss that each pays in: f * SHARE = half of it."""
INSURANCE = 2e-4
"""The share of the worst possible loss that is spent on the least known item, whatever the samples say."""
KEY, ROW = 0, 3
"""Indices into a row of ``State.block``."""
ANSWERS, NEXT, CERTIFIED = 0, 1, 2
"""Indices into ``State.clock``."""
ACCOUNT_BITS, COST_BITS, POSITION = 20, 32, (1 << 20) - 1
"""A slate's second mark: its block's first position, the account that paid for the tried item, and how much, as a float32."""


class State(NamedTuple):
    """B blocks, S samples each; D data sets, one per block that still explores, in the order of positions."""

    features: Floats  # (L, r) coordinates in which the optimal design has unit moments
    leaders: Ints  # (K,) the best-known items in order
    block: Ints  # (B, 4) key, first position, width, and its data set (-1: one item, nothing to find out)
    first: Ints  # (B, S) what to show first in usual rounds
    asked: Ints  # (B, S + 1) what balance rounds ask for, -1 for nothing; at the end, the least known item
    gain: Floats  # (B, S + 1) what the present order may be losing per round
    cost: Floats  # (B, S + 1) what it costs to ask
    account: Floats  # (B, 2) what may be spent: on what samples ask for, and on the least known item
    moments: Floats  # (D, r, r)
    sums: Floats  # (D, r)
    weight: Floats  # (L,) one over the variance of a click on the item, where it stands first
    shown: Floats  # (K, r) sums of what was shown at each position
    clicks: Ints  # (K,)
    key: Ints  # (D,) of data sets, as slates call them
    clock: Ints  # (3,) answers; those at the next estimate, and those when blocks were last certified


@hot
def rank(state: State, rng: np.random.Generator, slate: Buffer) -> None:
    """Show at most one item per block out of order, at its top, and the leaders in order below it."""
    marks, marked = slate.marks, 0
    for b in range(state.block.shape[0]):
        k, stop = state.block[b, FIRST], state.block[b, FIRST] + state.block[b, WIDTH]
        if state.block[b, ROW] >= 0:
            marks[marked, 0] = state.block[b, KEY]
            tried, account, cost = _choose(state, rng, b)
            marks[marked, 1] = k | account << ACCOUNT_BITS | np.int64(np.float32(cost).view(np.int32)) << COST_BITS
            marked += 1
            show_tried(slate.items, state.leaders, k, stop, tried)
        else:
            show_leaders(slate.items, state.leaders, k, stop)
    if marked < len(marks):
        marks[marked, 0] = -1


@hot
def _choose(state: State, rng: np.random.Generator, b: int) -> tuple[int, int, float]:
    """What block b shows first; which of its accounts pays for it, counted from 1 (0: none), and how much."""
    balance, samples = rng.random() < BALANCE, state.first.shape[1]
    s = int(rng.random() * samples)
    if balance:
        account = state.account
        account[b, 0] += SHARE * state.gain[b, s]
        account[b, 1] += INSURANCE / BALANCE * state.gain[b, samples]
        if state.asked[b, samples] >= 0 and account[b, 1] >= state.cost[b, samples]:
            account[b, 1] -= state.cost[b, samples]
            return int(state.asked[b, samples]), 2, float(state.cost[b, samples])
        if state.asked[b, s] >= 0 and account[b, 0] >= state.cost[b, s]:
            account[b, 0] -= state.cost[b, s]
            return int(state.asked[b, s]), 1, float(state.cost[b, s])
    return int(state.first[b, s]), 0, 0.0


@hot
def recall(state: State, before: Floats) -> None:
    """Remember both accounts of each block."""
    for b in range(len(state.account)):
        before[2 * b], before[2 * b + 1] = state.account[b, 0], state.account[b, 1]


@inner
def share(state: State, before: Floats, slate: Buffer, b: int, item: int) -> float:
    """The probability with which :func:`_choose` took this item: a sum over its tables."""
    if state.block[b, ROW] < 0:
        return 1.0 if state.leaders[state.block[b, FIRST]] == item else 0.0
    first, asked, gain, cost, samples = state.first[b], state.asked[b], state.gain[b], state.cost[b], state.first.shape[1]
    insured = asked[samples] >= 0 and before[2 * b + 1] + INSURANCE / BALANCE * gain[samples] >= cost[samples]
    usual, balance = 0, samples * (asked[samples] == item) if insured else 0
    for s in range(samples):
        usual += first[s] == item
        if not insured:
            affordable = asked[s] >= 0 and before[2 * b] + SHARE * gain[s] >= cost[s]
            balance += (asked[s] if affordable else first[s]) == item
    return float(((1 - BALANCE) * usual + BALANCE * balance) / samples)


propensity = one_tried_per_block(share)


@hot
def served(state: State, slate: Buffer) -> None:
    """A copy has served this slate: accounts get what a round pays in on average, and pay what the slate has cost."""
    samples = state.first.shape[1]
    for i in range(len(slate.marks)):
        if slate.marks[i, 0] < 0:
            break
        account, cost = slate.marks[i, 1] >> ACCOUNT_BITS & 3, np.int32(slate.marks[i, 1] >> COST_BITS).view(np.float32)
        for b in range(state.block.shape[0]):
            if state.block[b, KEY] == slate.marks[i, 0] and state.block[b, ROW] >= 0:
                paid = 0.0
                for s in range(samples):
                    paid += state.gain[b, s]
                state.account[b, 0] += BALANCE * SHARE * paid / samples
                state.account[b, 1] += INSURANCE * state.gain[b, samples]
                if account > 0:
                    state.account[b, account - 1] -= cost


@hot
def learn(state: State, slate: Buffer, clicks: Bools) -> bool:
    """Add a click or a non-click to every data set whose set of items above is the same. True when it is time to estimate."""
    features, dim = state.features, state.features.shape[1]
    for i in range(len(slate.marks)):
        if slate.marks[i, 0] < 0:
            break
        row = -1
        for r in range(len(state.key)):
            if state.key[r] == slate.marks[i, 0]:
                row = r
        k = slate.marks[i, 1] & POSITION
        if row < 0 or not 0 <= k < len(clicks):
            continue
        x = slate.items[k]
        w = state.weight[x]
        for p in range(dim):
            wp = w * features[x, p]
            for q in range(dim):
                state.moments[row, p, q] += wp * features[x, q]
            state.sums[row, p] += wp * clicks[k]
    for k in range(len(clicks)):
        if state.weight[slate.items[k]] > 0:
            state.clicks[k] += clicks[k]
            for p in range(dim):
                state.shown[k, p] += features[slate.items[k], p]
    state.clock[ANSWERS] += 1
    return bool(state.clock[ANSWERS] >= state.clock[NEXT])
