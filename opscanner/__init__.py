"""Know in which precision deep-learning operators really compute, from source and by measurement."""

__version__ = "0.1.0"
