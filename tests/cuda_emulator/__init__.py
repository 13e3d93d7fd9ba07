"""An emulator for CUDA kernels and a fake CuPy on top of it, for tests without a GPU.

Importing `cuda_emulator.fakecupy` compiles the emulator, once, which takes g++ a few seconds.
"""
