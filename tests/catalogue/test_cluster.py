"""A design on a Dask cluster is that of one machine, to the last bit, though a worker dies in the middle."""

from __future__ import annotations

import itertools
import json
import signal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.dask_cluster import Cluster

import recurrank as rr
from recurrank.catalogue import cluster as partitions
from recurrank.catalogue.cluster import on_cluster
from recurrank.catalogue.parquet import Dataset
from recurrank.cli import main
from recurrank.design import optimal
from recurrank.design.optimal import optimal_design

ROWS, DIM = 30_001, 7

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:distributed", "ignore::ResourceWarning")


@pytest.fixture(scope="module")
def catalogue(tmp_path_factory):
    """Heavy tails, a repeated row, a direction that few rows have; files and groups of odd sizes."""
    rng = np.random.default_rng(0)
    features = rng.standard_normal((ROWS, DIM)) * (1 + rng.pareto(3, (ROWS, 1)))
    features[:, 6] = 0
    features[[17, 20_000], 6] = 1
    features[5000:5100] = features[0]
    folder = tmp_path_factory.mktemp("items")
    edges = [0, 0, 9000, 9001, 21_500, ROWS]  # the first file is empty
    for number, (start, stop) in enumerate(itertools.pairwise(edges)):
        table = pa.table({"embedding": pa.array(list(features[start:stop].astype(np.float32)), pa.list_(pa.float32()))})
        pq.write_table(table, folder / f"part-{number}.parquet", row_group_size=1111)
    return folder


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with Cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


@pytest.fixture
def small_pieces(monkeypatch):
    monkeypatch.setattr(partitions, "PARTITION_NUMBERS", 2000 * DIM)
    monkeypatch.setattr(partitions, "FAN_IN", 3)
    monkeypatch.setattr(optimal, "POOL_NUMBERS", 0)  # two thousand rows, so that passes are needed


def equal(one, two) -> bool:
    return (
        one.support.tolist() == two.support.tolist()
        and one.weights.tobytes() == two.weights.tobytes()
        and (one.value, one.rank, one.scans) == (two.value, two.rank, two.scans)
    )


def test_the_answer_of_one_machine_though_a_worker_is_killed(cluster, catalogue, small_pieces):
    alone = rr.g_optimal(rr.Catalogue.open(catalogue).features, 0.01)
    assert alone.scans >= 2
    with on_cluster(Dataset(catalogue), cluster.address) as source:
        assert len(source.parts) > 10
        assert equal(optimal_design(source, 0.01), alone)
    calls = []

    def kill_one(done, whole):
        calls.append(done)
        if len(calls) == len(source.parts) + 3:  # in the middle of the second pass
            cluster.processes[1].send_signal(signal.SIGKILL)

    with on_cluster(Dataset(catalogue), cluster.address, kill_one) as source:
        again = optimal_design(source, 0.01)
    cluster.processes[1].wait(timeout=30)
    assert cluster.processes[1].returncode == -signal.SIGKILL
    assert equal(again, alone)


def test_the_command(cluster, catalogue, capsys):
    files = [str(path) for path in sorted(catalogue.glob("*.parquet"))]
    documents = []
    for arguments in (files, [*files, "--engine", f"dask:{cluster.address}"]):
        with pytest.raises(SystemExit) as ended:
            main(["design", *arguments, "--json"])
        assert ended.value.code == 0
        documents.append(json.loads(capsys.readouterr().out))
    for document in documents:
        assert document.pop("seconds") > 0
    assert documents[0] == documents[1]
    assert documents[0]["rank"] == 7


def test_bad_data_is_told_in_one_line(cluster, tmp_path):
    pq.write_table(pa.table({"embedding": [[1.0, 2.0]] * 50 + [[1.0]]}), tmp_path / "x.parquet")
    with (
        pytest.raises(ValueError, match=r"x\.parquet: row 50, column 'embedding': 1 features, the first item has 2"),
        on_cluster(Dataset(tmp_path / "x.parquet"), cluster.address) as source,
    ):
        optimal_design(source, 0.1)


def test_what_a_cluster_cannot_do(capsys, catalogue):
    for arguments, says in ((["--spanner"], "spanner: only G-optimal"), ([], "engine: no Dask scheduler answers")):
        with pytest.raises(SystemExit) as ended:
            main(["design", str(catalogue), "--engine", "dask:tcp://127.0.0.1:9", *arguments])
        assert ended.value.code == 2
        assert says in capsys.readouterr().err
