"""Load tests of the ladder with Locust: users, workloads, shapes, statistics, and the pages of the web UI."""
