"""What this project adds to Locust's web UI: a tab, a page of live charts, downloads."""
