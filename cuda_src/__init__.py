"""The CUDA sources, as package data. `cpreplay.kernels` reads them."""
