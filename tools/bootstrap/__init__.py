"""What stands before the command line: environments, their lock files, and the doctor. Standard library only."""
