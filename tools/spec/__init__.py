"""The profile: one YAML file that says what is served, how, and under which limits."""
