"""Offline kits for machines that reach no package index."""
