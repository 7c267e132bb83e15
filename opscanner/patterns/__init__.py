"""Kinds of precision tuning: one rule a file in ``rules``, run over the graph of a scan. Knows no clang and no SQL."""
