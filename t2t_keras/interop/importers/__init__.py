"""Models of other toolkits as runs, and runs in other formats."""
