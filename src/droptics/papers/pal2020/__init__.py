"""Pal et al. 2020: structured dropout (DropBlock, DropConnect)."""
