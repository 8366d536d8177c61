"""The running test: sessions are sent through transports, and what came of them is added up across workers."""
