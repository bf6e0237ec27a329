"""The few matrix routines that torch lacks: roots, rotations that set a diagonal, shrinkage of spectra, Krylov."""

from droptics.linalg.roots import psd_eigen, psd_inverse_root, psd_root
from droptics.linalg.rotations import equalize_columns, equalize_columns_, equalizer, hadamard_equalizer, schur_horn
from droptics.linalg.shrinkage import allocate, k_support_shrink, shrink, shrink_unequal

__all__ = ["allocate", "equalize_columns", "equalize_columns_", "equalizer", "hadamard_equalizer", "k_support_shrink"]
__all__ += ["psd_eigen", "psd_inverse_root", "psd_root", "schur_horn", "shrink", "shrink_unequal"]
