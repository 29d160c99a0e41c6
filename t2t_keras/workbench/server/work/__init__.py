"""Scheduling of work for clients: fair shares, budgets, turns."""
