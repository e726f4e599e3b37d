"""Sampling from a decoder-only transformer: prefill, cached decoding, logits transforms, stop rules."""
