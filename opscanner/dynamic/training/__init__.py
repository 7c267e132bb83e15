"""How far training drifts when one operator computes otherwise."""
