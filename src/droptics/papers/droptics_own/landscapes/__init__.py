"""Claims on landscapes, equalization, envelopes and coadaptation."""
