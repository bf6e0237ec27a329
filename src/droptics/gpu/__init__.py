"""What a GPU needs: recorded steps and a way to load kernels."""
