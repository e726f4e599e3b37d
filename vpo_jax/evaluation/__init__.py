"""Search-efficiency metrics, pools of scored answers, paired comparisons, figures and tables."""
