"""Judged queries and their documents: LETOR files, users who click by label, NDCG, and rankers that learn from them."""

from recurrank.queries.dataset import Queries as Queries
from recurrank.queries.dataset import open_map as open_map
from recurrank.queries.dataset import read as read

__all__ = ["Queries", "open_map", "read"]
