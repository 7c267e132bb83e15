"""Fuzz and Check layers, for torch and for Keras."""
