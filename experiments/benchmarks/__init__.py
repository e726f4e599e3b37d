"""Speed of the parts; figures and their command are in RESULTS.md."""
