"""Locust users, and what they send requests over: one transport a protocol."""
