"""Dr.GRPO: GRPO without the deviation, r_i - mean r (arXiv:2503.20783)."""

from vpo_jax.advantages.grpo import grpo
from vpo_jax.advantages.result import Advantages


def dr_grpo(
    rewards, key=None, *, rollout_mask=None, answer_mask=None, component_mask=None, scalar_weights=None,
    baseline='mean') -> Advantages:
  """Advantages of `grpo` in the units of the scalar: hard and easy prompts count by how much their rollouts differ.

  The sum Σ_i A_i ∇log π(y_i) has the expectation of N-1 times the gradient of the expected scalar ('loo' and 'none': N
  times). The method also divides the loss by a constant instead of the responses' lengths; that is the loss's part.

  Args:
    rewards: `[B, G, m, d]` reward vector of every answer.
    key: not used.
    rollout_mask: `[B, G]`, False for padding.
    answer_mask: `[B, G, m]`, False where the rollout gave no such answer.
    component_mask: `[B, d]`, False where the prompt lacks the component.
    scalar_weights: `[d]` the task's weighting, uniform by default.
    baseline: 'mean', 'loo' or 'none', see `group_advantage`.

  Returns:
    Values `[B, G]`; metrics.

  Raises:
    ValueError: a shape or setting is wrong.
  """
  return grpo(
      rewards, key, rollout_mask=rollout_mask, answer_mask=answer_mask, component_mask=component_mask,
      scalar_weights=scalar_weights, baseline=baseline, normalize='none')
