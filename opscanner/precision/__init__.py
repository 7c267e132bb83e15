"""Floating-point formats: numbers only, no clang, no torch."""

from opscanner.precision.formats import FORMATS, Direction, FloatFormat, cast_direction, part_format

__all__ = ["FORMATS", "Direction", "FloatFormat", "cast_direction", "part_format"]
