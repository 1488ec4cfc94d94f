"""Rankers of documents for queries: ranking functions that are learned from clicks, one algorithm per file."""

from recurrank.rankers.documents.dbgd import DBGD as DBGD
from recurrank.rankers.documents.mgd import MGD as MGD
from recurrank.rankers.documents.pairrank import PairRank as PairRank
from recurrank.rankers.documents.pdgd import PDGD as PDGD
from recurrank.rankers.documents.pmgd import PMGD as PMGD
from recurrank.rankers.documents.ranker import DocumentRanker as DocumentRanker
from recurrank.rankers.documents.ranker import DocumentSlate as DocumentSlate
from recurrank.rankers.documents.ranker import register as register
from recurrank.rankers.documents.ranker import registered as registered

__all__ = ["DBGD", "MGD", "PDGD", "PMGD", "DocumentRanker", "DocumentSlate", "PairRank", "register", "registered"]
