"""Operators: what a framework declares, which kernels serve it and on what evidence, and the study's module groups."""
