"""Reference results: what operators compute by definition, one file a family of operators.

A function here is written once and runs in the three arithmetics of :mod:`opscanner.dynamic.oracle.functions`. It is
the operator's documented definition (a threshold of the definition is part of it), in a form that loses no digits to
cancellation or overflow. Every public function of these files, and of ``functions`` and ``sums``, may be called by the
expressions in ``data/references/*.csv``.
"""
