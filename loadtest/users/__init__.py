"""Locust users, one class a protocol."""
