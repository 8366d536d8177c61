"""The typer application: one module per command group, options and printing only."""
