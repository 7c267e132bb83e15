"""Inputs that find what operators lose: strategies for an operator in a format, deterministic by seed. numpy alone."""

from opscanner.dynamic.inputs.batch import LAYOUTS, SIZES, Batch
from opscanner.dynamic.inputs.strategies import FURTHER_STRATEGIES, STRATEGIES, Strategy, generate

__all__ = ["FURTHER_STRATEGIES", "LAYOUTS", "SIZES", "STRATEGIES", "Batch", "Strategy", "generate"]
