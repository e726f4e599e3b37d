"""Runs on the small maze; `base.py` says what they share."""
