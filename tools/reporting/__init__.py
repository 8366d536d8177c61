"""The ladder report: the same load on every rung, what each step gained, and what it changed to gain it."""
