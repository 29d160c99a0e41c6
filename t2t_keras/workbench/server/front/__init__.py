"""Connections and bodies of requests, bounded before anything is read of them."""
