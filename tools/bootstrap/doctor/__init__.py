"""`./ladder doctor`: is this machine fit to serve, and what to do where it is not. Needs no environment."""
