"""Runs on programs by example; `base.py` says what they share."""
