"""Runs on the hard maze; `base.py` says what they share."""
