"""What is asked: sessions of requests, drawn from a seeded distribution or read from a file."""
