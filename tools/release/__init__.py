"""Releases: the release file, and who may change it."""
