"""An emulator for CUDA kernels and a fake CuPy on top of it, for tests without a GPU."""
