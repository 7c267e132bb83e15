"""Runs operators and measures how far their results lie from the mathematical ones. No clang, no database here."""
