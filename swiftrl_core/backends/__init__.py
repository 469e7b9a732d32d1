"""The machines that learn: PIM, CPU, GPU, and the exact solution. None imports another."""
