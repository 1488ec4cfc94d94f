"""``recurrank movielens``: features and theta from a MovieLens data set."""

from __future__ import annotations

import time
from pathlib import Path

import click

from recurrank.cli.shared import console, json_option, output_path, print_json


@click.command()
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--items", default=1000, show_default=True, help="L, how many of the most rated movies.")
@click.option("--users", default=1000, show_default=True, help="How many of the most active users are for theta.")
@click.option("--feature-users", default=100, show_default=True, help="How many more of them are for the features.")
@click.option("--dim", default=5, show_default=True, help="d, how many features a movie gets.")
@click.option("--splits", default=10, show_default=True, help="How many random splits of the users.")
@click.option("--seed", default=0, show_default=True, help="Of the splits.")
@click.option(
    "--out", type=click.Path(path_type=Path), default=Path("movielens.npz"), show_default=True, help="The .npz file to write."
)
@json_option
def command(
    path: Path, items: int, users: int, feature_users: int, dim: int, splits: int, seed: int, out: Path, as_json: bool
) -> None:
    """Prepare features and theta from PATH as in the paper: a MovieLens zip, its unpacked folder or its ratings file.

    Sizes 100K, 1M, 10M, 20M, 25M and 32M, as GroupLens ships them. Then: recurrank paper --movielens FILE.npz
    """
    from recurrank.experiments.movielens import prepare, read_ratings

    if seed < 0:
        raise ValueError(f"seed: {seed} is negative; give a whole number of at least 0")
    output_path(out, (".npz",))
    began = time.perf_counter()
    ratings = read_ratings(path)
    read = time.perf_counter() - began
    prepared = prepare(ratings, items, users, feature_users, dim, splits, seed)
    prepared.save(out)
    attraction = [prepared.problem(split).attraction for split in range(splits)]
    facts = {
        **{name: value for name, value in prepared.about.items() if name != "citation"},
        "attraction": [min(float(a.min()) for a in attraction), max(float(a.max()) for a in attraction)],
        "digest": prepared.digest,
        "seconds": time.perf_counter() - began,
        "out": str(out),
    }
    if as_json:
        print_json(facts)
        return
    low, high = facts["attraction"]
    console().print(
        f"{len(ratings.users):,} ratings read in {read:.1f} s; "
        f"the {items:,} movies rated most, the {users + feature_users:,} users who rate most\n"
        f"{splits} splits of the users: {feature_users} for {dim} features, {users} for theta; "
        f"attraction from {low:.2f} to {high:.2f}\n"
        f"movies without a direction (rated by none of the {feature_users}): "
        f"{max(prepared.about['unrated'])} at most in a split\n"
        f"written: {out}; now try: recurrank paper --movielens {out}"
    )
