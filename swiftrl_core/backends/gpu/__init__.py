"""The GPU backend: virtual PIM cores as lanes of a CUDA kernel, the same bits as the other backends."""
