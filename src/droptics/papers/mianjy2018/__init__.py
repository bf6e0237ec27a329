"""Mianjy, Arora and Vidal 2018: the implicit bias of dropout in shallow linear networks."""
