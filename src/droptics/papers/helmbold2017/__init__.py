"""Helmbold and Long: Surprising properties of dropout in deep networks (JMLR 18, 2018; arXiv 1602.04484)."""
