"""The learner: a train state sharded over a mesh, and the update step that turns a batch into a new state.

The update is one jitted program. Micro-batches are a `lax.scan` whose gradients add up with weights made from counts
of the whole batch, so every split into micro-batches and over devices gives the same update up to rounding.
"""

import dataclasses
import math

import flax.struct
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from vpo_jax import losses, partition
from vpo_jax.models import transformer
from vpo_jax.models.config import ModelConfig

_CHUNK_ELEMENTS = 2**25  # Logits a device holds at once, 128 MiB in float32: all would be tens of GiB at V = 152k.


@flax.struct.dataclass
class TrainState:
  """What an update reads and writes.

  Attributes:
    params: float32 parameters of the policy.
    opt_state: the optimizer's.
    step: `[]` int32, updates done.
  """

  params: dict
  opt_state: optax.OptState
  step: jax.Array


@flax.struct.dataclass
class Batch:
  """Responses to learn from, G to each of U prompts.

  Attributes:
    prompts: `[U, P]` int32, right-padded.
    prompt_lengths: `[U]` int32, at least 1.
    tokens: `[U, G, C]` int32.
    lengths: `[U, G]` int32; 0 for filler, which then counts nowhere.
    advantages: `[U, G]` float32.
    old_logprobs: `[U, G, C]` float32 under the policy that the batch's first update starts from; None where the batch
      gets one update: the ratio is then exactly 1, and no second forward pass is needed.
  """

  prompts: jax.Array
  prompt_lengths: jax.Array
  tokens: jax.Array
  lengths: jax.Array
  advantages: jax.Array
  old_logprobs: jax.Array | None = None


@dataclasses.dataclass(frozen=True)
class LossSettings:
  """The objective of an update; see `losses`.

  Attributes:
    clip_low: the ratio is clipped at 1 - clip_low.
    clip_high: and at 1 + clip_high.
    dual_clip: bound on the loss of tokens with a negative advantage, in units of it.
    kl_coef: weight of the KL term to the reference; 0 needs none.
    kl_kind: its estimator, one of `losses.KL_KINDS`.
    aggregation: one of `losses.AGGREGATIONS`.
  """

  clip_low: float
  clip_high: float
  dual_clip: float
  kl_coef: float
  kl_kind: str
  aggregation: str

  def __post_init__(self):
    if not self.clip_low <= 1:
      raise ValueError(f'loss.clip_low={self.clip_low} must be at most 1: the ratio is clipped at 1 - clip_low.')
    for name in ('clip_low', 'clip_high', 'kl_coef'):
      if not getattr(self, name) >= 0:
        raise ValueError(f'loss.{name}={getattr(self, name)} must be at least 0.')
    if not self.dual_clip > 1:
      raise ValueError(f'loss.dual_clip={self.dual_clip} must be above 1.')
    if self.kl_kind not in losses.KL_KINDS:
      raise ValueError(f'loss.kl_kind={self.kl_kind!r} must be one of {", ".join(losses.KL_KINDS)}.')
    if self.aggregation not in losses.AGGREGATIONS:
      raise ValueError(f'loss.aggregation={self.aggregation!r} must be one of {", ".join(losses.AGGREGATIONS)}.')


def adamw(*, learning_rate: float, warmup_steps: int, decay_steps: int, b1: float, b2: float, eps: float,
          weight_decay: float, clip_norm: float) -> optax.GradientTransformation:
  """AdamW after clipping the global gradient norm; linear warm-up, then constant or (decay_steps > 0) cosine to 0.

  Raises:
    ValueError: a number is out of range.
  """
  for name, value in dict(learning_rate=learning_rate, eps=eps, clip_norm=clip_norm).items():
    if not value > 0:
      raise ValueError(f'optimizer.{name}={value} must be above 0.')
  for name, value in dict(warmup_steps=warmup_steps, decay_steps=decay_steps, weight_decay=weight_decay).items():
    if not value >= 0:
      raise ValueError(f'optimizer.{name}={value} must be at least 0.')
  for name, value in dict(b1=b1, b2=b2).items():
    if not 0 <= value < 1:
      raise ValueError(f'optimizer.{name}={value} must lie in [0, 1).')
  if decay_steps:
    schedule = optax.warmup_cosine_decay_schedule(0.0, learning_rate, warmup_steps, decay_steps)
  else:
    schedule = optax.linear_schedule(0.0, learning_rate, warmup_steps) if warmup_steps else learning_rate
  return optax.chain(
      optax.clip_by_global_norm(clip_norm),
      optax.adamw(schedule, b1=b1, b2=b2, eps=eps, weight_decay=weight_decay))


def token_logprobs(params, config: ModelConfig, hidden: jax.Array, tokens: jax.Array, temperature: jax.Array, *,
                   shards: int = 1) -> tuple[jax.Array, jax.Array]:
  """Log-probs (nats) of `tokens` under softmax(logits / temperature), and that distribution's entropy.

  The head runs in chunks of token indices where all logits would be large; a chunk's logits are made again in the
  backward pass instead of being kept. Every chunk has all rows: one made of some rows would lie on some of the devices
  that share the rows, and each device would compute all chunks. No gradient flows through the entropy.

  Args:
    params: of the model.
    config: of the model.
    hidden: `[.., C, D]` states that predict the tokens.
    tokens: `[.., C]` int32.
    temperature: `[]`, that of the sampler.
    shards: devices that the rows are split over.

  Returns:
    `[.., C]` log-probs and `[.., C]` entropies, float32.
  """

  def score(part):
    hidden, tokens = part
    logprobs = jax.nn.log_softmax(transformer.head(params, config, hidden) / temperature)
    fixed = jax.lax.stop_gradient(logprobs)
    return jnp.take_along_axis(logprobs, tokens[..., None], axis=-1)[..., 0], -(jnp.exp(fixed) * fixed).sum(-1)

  *rows, c = tokens.shape
  size = max(1, _CHUNK_ELEMENTS * shards // (math.prod(rows) * config.vocab_size))
  if c <= size:
    return score((hidden, tokens))
  axis = len(rows)

  def in_chunks(x):
    x = jnp.pad(x, [(0, -c % size if i == axis else 0) for i in range(x.ndim)])
    return jnp.moveaxis(x.reshape(*rows, -1, size, *x.shape[axis + 1 :]), axis, 0)

  scored = jax.lax.map(jax.checkpoint(score), (in_chunks(hidden), in_chunks(tokens)))
  return jax.tree.map(lambda x: jnp.moveaxis(x, 0, axis).reshape(*rows, -1)[..., :c], scored)


class Learner:
  """Jitted programs of one model, optimizer and objective on one mesh."""

  def __init__(self, config: ModelConfig, optimizer: optax.GradientTransformation, loss: LossSettings, mesh: Mesh, *,
               micro_batches: int, updates_per_batch: int):
    """Builds the programs; nothing is compiled yet.

    Args:
      config: the model.
      optimizer: turns gradients into updates.
      loss: the objective.
      mesh: from `partition.make_mesh`.
      micro_batches: parts of an update, of equal numbers of prompts, whose gradients are added up one after the other.
      updates_per_batch: optimizer steps that `learn` makes on a batch, each on its own share of the prompts.

    Raises:
      ValueError: `micro_batches` or `updates_per_batch` is below 1.
    """
    for name, value in dict(micro_batches=micro_batches, updates_per_batch=updates_per_batch).items():
      if value < 1:
        raise ValueError(f'{name}={value} must be at least 1.')
    self.config, self.optimizer, self.loss, self.mesh = config, optimizer, loss, mesh
    self.micro_batches, self.updates_per_batch = micro_batches, updates_per_batch
    abstract = jax.eval_shape(self._create, jax.eval_shape(lambda: transformer.init(jax.random.key(0), config)))
    shardings = partition.param_shardings(abstract, mesh)
    self.abstract_state = jax.tree.map(
        lambda x, s: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=s), abstract, shardings)
    batch, replicated = partition.batch_sharding(mesh), NamedSharding(mesh, P())
    self._init = jax.jit(lambda seed: self._create(transformer.init(jax.random.key(seed), config)),
                         out_shardings=shardings)
    self._start = jax.jit(self._create, out_shardings=shardings)
    reference = shardings.params if loss.kl_coef else None
    self._update = jax.jit(
        self._update_step, donate_argnums=0, in_shardings=(shardings, reference, batch, replicated),
        out_shardings=(shardings, replicated))
    self._logprobs = jax.jit(
        self._batch_logprobs, in_shardings=(shardings.params, batch, replicated), out_shardings=batch)
    self._select = jax.jit(
        lambda tree, i: jax.tree.map(lambda x: x.reshape(-1, updates_per_batch, *x.shape[1:])[:, i], tree),
        out_shardings=batch)

  def init(self, seed: int) -> TrainState:
    """A state of fresh parameters."""
    return self._init(np.uint32(seed))

  def start(self, params) -> TrainState:
    """A state of given parameters, which are copied: the update donates its state, and a reference must survive."""
    return self._start(params)

  def learn(self, state: TrainState, reference, batch: Batch, temperature: float) -> tuple[TrainState, dict]:
    """Updates on a batch: once on all of it, or several times, each on other prompts, against its log-probs of now.

    Takes and returns what `update` does; the metrics are those of the last update, `finite` of all.
    """
    if self.updates_per_batch == 1:
      return self.update(state, reference, batch, temperature)
    batch = batch.replace(old_logprobs=self.logprobs(state.params, batch, temperature))
    finite = True
    for i in range(self.updates_per_batch):
      state, metrics = self.update(state, reference, self._select(batch, np.int32(i)), temperature)
      finite = finite & metrics['finite']
    return state, metrics | {'finite': finite}

  def update(self, state: TrainState, reference, batch: Batch, temperature: float) -> tuple[TrainState, dict]:
    """One optimizer step; `state` is donated. A loss or gradient that is not finite leaves the parameters as they were.

    Args:
      state: what `init`, `start` or `update` returned.
      reference: parameters of the frozen policy of the KL term; None if `loss.kl_coef` is 0.
      batch: global arrays split by prompts (`pad`, then `partition.to_mesh`).
      temperature: that of the sampler.

    Returns:
      The new state; scalars: `loss`, `grad_norm`, `entropy` (nats), `logprob`, `kl_reference`, `clip_fraction`,
      `dual_clip_fraction`, `ratio`, `kl_old`, `tokens`, and `finite`.
    """
    return self._update(state, reference, batch, np.float32(temperature))

  def logprobs(self, params, batch: Batch, temperature: float) -> jax.Array:
    """`[U, G, C]` log-probs of the batch's tokens, in the same micro-batches as the update; 0 behind the lengths."""
    return self._logprobs(params, batch, np.float32(temperature))

  def pad(self, batch: Batch) -> Batch:
    """Adds filler prompts, with responses of length 0, until updates, micro-batches and devices divide this share."""
    local = self.mesh.shape['data'] * self.mesh.shape['fsdp'] // jax.process_count() or 1
    extra = -len(batch.prompts) % (local * self.micro_batches * self.updates_per_batch)
    if not extra:
      return batch
    fill = lambda x: np.concatenate([x, np.repeat(x[-1:], extra, axis=0)])
    batch = jax.tree.map(lambda x: fill(np.asarray(x)), batch)
    batch.lengths[-extra:] = 0
    return batch

  def _create(self, params):
    return TrainState(params=params, opt_state=self.optimizer.init(params), step=jnp.int32(0))

  def _update_step(self, state, reference, batch, temperature):
    mask = _token_mask(batch)
    num_tokens, num_sequences = losses.token_counts(mask)
    weights = losses.token_weights(
        mask, self.loss.aggregation, num_tokens=num_tokens, num_sequences=num_sequences, max_length=mask.shape[-1])

    def micro_loss(params, part):
      batch, weights = part
      mask = _token_mask(batch)
      logprobs, entropy = self._score(params, batch, temperature)
      old = jax.lax.stop_gradient(logprobs) if batch.old_logprobs is None else batch.old_logprobs
      token_losses, sums = losses.policy_loss(
          logprobs, old, batch.advantages[..., None], mask, clip_low=self.loss.clip_low,
          clip_high=self.loss.clip_high, dual_clip=self.loss.dual_clip)
      total = lambda x: jax.lax.stop_gradient(jnp.where(mask, x, 0.0).sum())
      sums |= {'entropy': total(entropy), 'logprob': total(logprobs)}
      if reference is not None:
        kl = losses.kl_penalty(logprobs, self._score(reference, batch, temperature)[0], self.loss.kl_kind, mask=mask)
        token_losses = token_losses + self.loss.kl_coef * kl
        sums |= {'kl_reference': total(kl)}
      return losses.weighted_sum(token_losses, weights), sums

    gradient = jax.value_and_grad(micro_loss, has_aux=True)
    parts = self._split((batch, weights))
    shapes = jax.eval_shape(gradient, state.params, jax.tree.map(lambda x: x[0], parts))
    zero = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)
    add = lambda total, part: (jax.tree.map(jnp.add, total, gradient(state.params, part)), None)
    ((loss, sums), grads), _ = jax.lax.scan(add, zero, parts)

    updates, opt_state = self.optimizer.update(grads, state.opt_state, state.params)
    grad_norm = optax.tree.norm(grads)
    finite = jnp.isfinite(loss) & jnp.isfinite(grad_norm)
    new = TrainState(params=optax.apply_updates(state.params, updates), opt_state=opt_state, step=state.step + 1)
    state = jax.tree.map(lambda new, old: jnp.where(finite, new, old), new, state)
    tokens = sums.pop('tokens')
    means = {name: x / jnp.maximum(tokens, 1) for name, x in sums.items()}
    renamed = {'clipped': 'clip_fraction', 'dual_clipped': 'dual_clip_fraction'}
    return state, {renamed.get(name, name): x for name, x in means.items()} | {
        'loss': loss, 'grad_norm': grad_norm, 'finite': finite, 'tokens': tokens}

  def _batch_logprobs(self, params, batch, temperature):
    def score(_, part):
      return None, jnp.where(_token_mask(part), self._score(params, part, temperature)[0], 0.0)

    _, parts = jax.lax.scan(score, None, self._split(batch))
    return jax.tree.map(lambda x: x.swapaxes(0, 1).reshape(-1, *x.shape[2:]), parts)

  def _score(self, params, batch, temperature):
    hidden = transformer.continuation(params, self.config, batch.prompts, batch.prompt_lengths, batch.tokens)
    return token_logprobs(params, self.config, hidden, batch.tokens, temperature,
                          shards=self.mesh.shape['data'] * self.mesh.shape['fsdp'])

  def _split(self, tree):
    """`[U, ..]` to `[micro-batches, U / micro-batches, ..]`, every device keeping its own prompts."""
    n = self.micro_batches
    return jax.tree.map(lambda x: x.reshape(-1, n, *x.shape[1:]).swapaxes(0, 1), tree)


def _token_mask(batch):
  return jnp.arange(batch.tokens.shape[-1])[None, None] < batch.lengths[..., None]
