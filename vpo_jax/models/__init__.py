"""Decoder-only transformers as pure functions of nested-dict parameters."""
