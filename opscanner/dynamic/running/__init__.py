"""A running torch model, watched: what is perturbed, compared, run wider, and where it deviates."""
