"""Rankers of documents for queries: ranking functions that are learned from clicks, one algorithm per file."""

from recurrank.rankers.documents.pdgd import PDGD as PDGD
from recurrank.rankers.documents.ranker import DocumentRanker as DocumentRanker
from recurrank.rankers.documents.ranker import DocumentSlate as DocumentSlate
from recurrank.rankers.documents.ranker import register as register
from recurrank.rankers.documents.ranker import registered as registered

__all__ = ["PDGD", "DocumentRanker", "DocumentSlate", "register", "registered"]
