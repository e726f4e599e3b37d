"""Programs by example: find a program of `program_language` from pairs of inputs and outputs, one reward per test.

  shown    [3 -1 4] -> 14     [0 2] -> 4     [-5 1 1 2] -> 8     [7 7] -> 28
  answer   x positives 2 multiply sum
  tests    the 4 shown pairs, and 4 to 8 hidden ones
  reward   1 for each test whose output is right, else 0; an invalid program earns zeros

A problem is drawn as a random program, whose outputs on random inputs make the pairs. Splits (`splits`) are disjoint by
behaviour on 64 probe inputs, so that no program is in two of them in another wording. `shifted` problems have inputs up
to ±20 instead of ±9.

Tokens: a word of the language each (29), the separator between programs, the end; then, only in prompts, two modes
(one answer asked for, several), a blank, two arrows (to a list, to an integer), and the numbers from -99 to 99. Every
pair fills the same 11 places, so that a prompt has 45 tokens. A response is `program SEP program .. END`.
"""

import dataclasses
import functools
import random

import numpy as np

from vpo_jax.tasks import answer_tags, splits
from vpo_jax.tasks import program_language as language

VISIBLE = 4
HIDDEN = (4, 8)  # Fewest and most.
NUM_TESTS = VISIBLE + HIDDEN[1]
SEPARATOR, END, _ONE, _SEVERAL, _BLANK, _TO_LIST, _TO_INTEGER = range(len(language.WORDS), len(language.WORDS) + 7)
_NUMBER_0 = _TO_INTEGER + 1 + language.LIMIT
LARGEST_INPUT, LARGEST_SHIFTED_INPUT = 9, 20


def random_input(rng: random.Random, largest: int) -> tuple[int, ...]:
  """Draws a list of 2 to 5 integers in [-largest, largest]."""
  return tuple(rng.randint(-largest, largest) for _ in range(rng.randint(2, language.MAX_LIST)))


@functools.cache
def probes() -> tuple[tuple[int, ...], ...]:
  """The 64 inputs on which two programs must differ to be two."""
  rng = random.Random(0)
  return tuple(random_input(rng, largest) for largest in (LARGEST_INPUT, LARGEST_SHIFTED_INPUT) for _ in range(32))


def behaviour(words: list[str]) -> tuple[language.Value, ...]:
  """Outputs of a valid program on the probes."""
  return tuple(language.run(words, x) for x in probes())


def is_redundant(words: list[str]) -> bool:
  """Whether a word of a valid program can be left out without a change on the probes."""
  shorter = (words[:i] + words[i + 1:] for i in range(len(words)))
  return any(language.result_type(fewer) and all(language.run(fewer, x) == language.run(words, x) for x in probes())
             for fewer in shorter)


def changed(words: list[str], rng: random.Random) -> list[str]:
  """A valid program that differs from a valid one by one word, changed, put in or left out."""
  while True:
    at, size = rng.randrange(len(words) + 1), rng.randrange(2)
    others = words[:at] + [rng.choice(language.WORDS)] * rng.randrange(2) + words[at + size:]
    if others != words and language.result_type(others):
      return others


@dataclasses.dataclass(frozen=True)
class Programs:
  """Program synthesis as a token task and a text task; see the module's head.

  Attributes:
    min_words: of the program behind a problem, at least 2.
    max_words: likewise, at most 8.
    rewarded: the first so many tests pay in training: 4 are the visible ones, 12 are all. Evaluations count the hidden
      ones, whatever was paid.
    noise: probability that a demonstrated program is not the one behind the problem, but one word away from it.
    seed: of all example streams, >= 0.
  """
  min_words: int = 3
  max_words: int = 6
  rewarded: int = NUM_TESTS
  noise: float = .5
  seed: int = 0

  def __post_init__(self):
    if not 2 <= self.min_words <= self.max_words <= language.MAX_WORDS:
      raise ValueError(f'min_words={self.min_words} must be at least 2 and at most max_words={self.max_words}, which '
                       f'must be at most {language.MAX_WORDS}.')
    if not 1 <= self.rewarded <= NUM_TESTS:
      raise ValueError(f'rewarded={self.rewarded} must lie in [1, {NUM_TESTS}].')
    if not 0 <= self.noise <= 1:
      raise ValueError(f'noise={self.noise} must lie in [0, 1].')
    if not isinstance(self.seed, int) or self.seed < 0:
      raise ValueError(f'seed={self.seed!r} must be an integer >= 0.')

  @property
  def name(self) -> str:
    """Name in `TASKS`."""
    return 'programs'

  @property
  def components(self) -> tuple[str, ...]:
    """Names of the d = 12 reward components, a test each."""
    return tuple(f'test_{i}' for i in range(1, NUM_TESTS + 1))

  @property
  def scalar_weights(self) -> np.ndarray:
    """The fixed weighting w* `[d]` float32: the share of tests passed."""
    return np.full(NUM_TESTS, 1 / NUM_TESTS, np.float32)

  @property
  def success_components(self) -> tuple[str, ...]:
    """Components that a successful answer has all of: every test."""
    return self.components

  @property
  def stop_ids(self) -> tuple[int, ...]:
    """The end token, alone."""
    return (END,)

  @property
  def vocab_size(self) -> int:
    """Number of tokens."""
    return _NUMBER_0 + language.LIMIT + 1

  @property
  def prompt_width(self) -> int:
    """Tokens of a prompt."""
    return VISIBLE * (2 * language.MAX_LIST + 1) + 1

  def response_width(self, num_answers: int) -> int:
    """Tokens of the longest useful response: programs of at most 8 words, and a separator or the end after each."""
    return answer_tags.check_num_answers(num_answers) * (language.MAX_WORDS + 1)

  def draw(self, rng: random.Random, shifted: bool) -> dict[str, np.ndarray] | None:
    """Draws one example; None if its program is redundant or says too little about its input."""
    words = language.random_program(rng, rng.randint(self.min_words, self.max_words))
    if is_redundant(words):
      return None
    inputs = [random_input(rng, LARGEST_SHIFTED_INPUT if shifted else LARGEST_INPUT) for _ in range(NUM_TESTS)]
    outputs = [language.run(words, x) for x in inputs]
    if len(set(outputs[:VISIBLE])) < VISIBLE - 1 or len(set(inputs)) < NUM_TESTS or outputs == inputs:
      return None
    hidden = rng.randint(*HIDDEN)
    codes = [language.CODES[word] for word in words]
    return {
        'program': np.array(codes + [-1] * (language.MAX_WORDS - len(codes)), np.int32),
        'inputs': _padded(inputs), 'input_lengths': _lengths(inputs),
        'outputs': _padded(outputs), 'output_lengths': _lengths(outputs),
        'tests': np.arange(NUM_TESTS) < VISIBLE + hidden,
    }

  def content(self, example: dict) -> bytes:
    """What no two splits share: the behaviour on the probes."""
    return repr(behaviour(self.program(example))).encode()

  def examples(self, split: str) -> splits.Examples:
    """The examples of `train`, `tuning`, `test` or `shifted`.

    Each has `program` `[8]` codes of the words behind it (-1 beyond them), `inputs` and `outputs` `[12, 5]` int32 zero
    beyond `input_lengths` and `output_lengths` `[12]` (-1: an integer), and `tests` `[12]` bool, which of them exist.
    """
    return splits.Examples(self, split)

  def program(self, example: dict) -> list[str]:
    """The words behind a problem."""
    return [language.WORDS[code] for code in example['program'] if code >= 0]

  def prompt_tokens(self, example: dict, num_answers: int) -> np.ndarray:
    """Prompt `[45]` int32: the visible pairs, blanks where lists end early, and the mode token."""
    inside = lambda lengths: np.arange(language.MAX_LIST) < lengths[:VISIBLE, None]
    output_lengths = example['output_lengths']
    inputs = np.where(inside(example['input_lengths']), _NUMBER_0 + example['inputs'][:VISIBLE], _BLANK)
    outputs = np.where(inside(np.abs(output_lengths)), _NUMBER_0 + example['outputs'][:VISIBLE], _BLANK)
    arrows = np.where(output_lengths[:VISIBLE, None] < 0, _TO_INTEGER, _TO_LIST)
    mode = _SEVERAL if answer_tags.check_num_answers(num_answers) > 1 else _ONE
    return np.append(np.concatenate([inputs, arrows, outputs], axis=1), mode).astype(np.int32)

  def token_reward(self, arrays: dict, tokens, lengths, num_answers: int):
    """Rewards `[.., m, d]`, answer_mask and answer_ids `[.., m]` of tokens `[.., T]`: `program_reward.token_reward`."""
    from vpo_jax.tasks import program_reward  # Imports JAX, which host scoring must not.
    return program_reward.token_reward(arrays, tokens, lengths, num_answers=answer_tags.check_num_answers(num_answers))

  def component_mask(self, example: dict) -> np.ndarray:
    """`[d]` bool: the tests that exist and pay in training."""
    return example['tests'] & (np.arange(NUM_TESTS) < self.rewarded)

  def evaluation_mask(self, example: dict) -> np.ndarray:
    """`[d]` bool: the hidden tests, which alone count in an evaluation."""
    return example['tests'] & (np.arange(NUM_TESTS) >= VISIBLE)

  def decode(self, example: dict, tokens: np.ndarray, num_answers: int) -> list[str | None]:
    """The m answers of a token response `[T]` as text (None: missing): `reward` of these is what the tokens earn."""
    del example
    programs = [[]]
    for token in np.asarray(tokens).tolist():
      if token == END:
        break
      if token == SEPARATOR:
        programs.append([])
      else:
        programs[-1].append(language.WORDS[token] if 0 <= token < len(language.WORDS) else f'<{token}>')
    programs = (programs + [[]] * answer_tags.check_num_answers(num_answers))[:num_answers]
    return [' '.join(words) or None for words in programs]

  def demonstration(self, example: dict, num_answers: int, rng: np.random.Generator) -> np.ndarray:
    """A noisy response `[<= C]` int32 to imitate, end token included: each program the one behind the problem, or, with
    probability `noise`, one word away from it."""
    draw, tokens = random.Random(int(rng.integers(2**32))), []
    for _ in range(answer_tags.check_num_answers(num_answers)):
      words = self.program(example)
      if draw.random() < self.noise:
        words = changed(words, draw)
      tokens += [*(language.CODES[word] for word in words), SEPARATOR]
    tokens[-1] = END
    return np.array(tokens, np.int32)

  def reward(self, example: dict, answer: str) -> np.ndarray:
    """Reward `[d]` float32 of one answer's text: 1 for each test passed."""
    words = answer.split()
    if language.result_type(words) is None:
      return np.zeros(NUM_TESTS, np.float32)
    inputs = zip(example['inputs'].tolist(), example['input_lengths'].tolist(), strict=True)
    results = [language.run(words, tuple(x[:length])) for x, length in inputs]
    right = (_padded(results) == example['outputs']).all(axis=1) & (_lengths(results) == example['output_lengths'])
    return (right & example['tests']).astype(np.float32)

  def canonical(self, example: dict, answer: str) -> str:
    """The program's structure: equal for two valid answers exactly if they are one expression up to the order of
    commutative operands; of an invalid answer its words."""
    del example
    words = answer.split()
    return language.structure(words) if language.result_type(words) else ' '.join(words)

  def parse(self, text: str, num_answers: int) -> list[str | None]:
    """The m answers in a response's text (None: missing or blank), by the rules of `answer_tags`."""
    names = answer_tags.names('program', num_answers)
    found = answer_tags.first_blocks(text, names)
    return [found.get(name) or None for name in names]

  def visible_pairs(self, example: dict) -> list[str]:
    """The shown tests as text, `[3, -1, 4] -> 12` each."""
    pairs = []
    for row in range(VISIBLE):
      x = example['inputs'][row][:example['input_lengths'][row]].tolist()
      length = int(example['output_lengths'][row])
      y = int(example['outputs'][row][0]) if length < 0 else example['outputs'][row][:length].tolist()
      pairs.append(f'{x} -> {y}')
    return pairs

  def messages(self, example: dict, num_answers: int) -> list[dict[str, str]]:
    """The problem as chat messages that ask for `num_answers` programs between tags."""
    names = answer_tags.names('program', num_answers)
    tags = ' '.join(f'<{name}>..</{name}>' for name in names)
    asked = (f'Write the program between tags, {tags}, with nothing else between them.' if len(names) == 1 else
             f'Write {len(names)} different programs, each a guess of its own, between tags: {tags}, with nothing '
             'else between them.')
    return [{'role': 'user', 'content': (
        f'A program is a list of at most {language.MAX_WORDS} words, read from left to right on a stack. x pushes the '
        f'input list, 1, 2 and 3 push themselves, and each other word takes its operands off the stack and pushes its '
        f'result: {", ".join(language.OPERATIONS)}. One value must be left. Find a program that turns each input into '
        f'its output:\n' + '\n'.join(self.visible_pairs(example)) + f'\n{asked}')}]

  def oracle(self, example: dict) -> float:
    """The best scalar of one answer: 1, that of the program behind the problem."""
    del example
    return 1.

  def best_vectors(self, example: dict) -> np.ndarray:
    """The exact Pareto front `[1, d]` float32: all tests passed."""
    return example['tests'].astype(np.float32)[None]


def _padded(values: list[language.Value]) -> np.ndarray:
  rows = [[value] if isinstance(value, int) else list(value) for value in values]
  return np.array([row + [0] * (language.MAX_LIST - len(row)) for row in rows], np.int32)


def _lengths(values: list[language.Value]) -> np.ndarray:
  return np.array([-1 if isinstance(value, int) else len(value) for value in values], np.int32)
