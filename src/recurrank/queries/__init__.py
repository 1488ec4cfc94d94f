"""Judged queries and their documents: LETOR files, users who click by label, NDCG, and rankers that learn from them."""

from recurrank.queries.dataset import Queries as Queries
from recurrank.queries.dataset import open_map as open_map
from recurrank.queries.dataset import read as read
from recurrank.queries.metrics import ndcg as ndcg
from recurrank.queries.simulation import QueryRun as QueryRun
from recurrank.queries.simulation import evaluate as evaluate
from recurrank.queries.simulation import simulate as simulate
from recurrank.queries.users import Users as Users
from recurrank.queries.users import make_users as make_users

__all__ = ["Queries", "QueryRun", "Users", "evaluate", "make_users", "ndcg", "open_map", "read", "simulate"]
