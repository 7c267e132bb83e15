"""The rules, one a file; a file that is put here is found, listed, documented and tested."""
