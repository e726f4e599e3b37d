"""Answers between tags: which text counts, and in linear time."""

import time

import hypothesis
import hypothesis.strategies as st
import pytest

from vpo_jax.tasks import answer_tags

ROUTES = ('route_1', 'route_2', 'route_10')


def test_the_example_of_the_docstring():
  text = '<think>say <route_1>UP</route_1></think> <route_2>DOWN</route_2> <route_1>LEFT</route_1>'
  assert answer_tags.first_blocks(text, ('route_1', 'route_2')) == {'route_1': 'LEFT', 'route_2': 'DOWN'}


@pytest.mark.parametrize('text, answer', [
    ('<answer>1</answer>', '1'),
    ('<ANSWER>1</Answer>', '1'),
    ('<answer >1</answer>', None),  # Names hold no spaces.
    ('</answer><answer>1</answer></answer>', '1'),  # Strays are passed over.
    ('<answer><answer>1</answer>', '1'),
    ('<answer>1</answer> no, <answer>2</answer>', '1'),  # The first counts.
    ('<answer>1', None),
    ('the answer is 1', None),
    ('<answer>\r\n a\n b\r\n</answer><|im_end|>', 'a\n b'),
    ('<think>quote <answer>1</answer> and go on', None),
    ('a</think>b</think><answer>2</answer>', '2'),
    ('<answer></answer>', ''),
    ('<answer>1 < 2 <b>x</b></answer>', '1 < 2 <b>x</b>'),
    ('<anſwer>1</anſwer>', None),  # Not ASCII.
])
def test_which_answer_counts(text, answer):
  assert answer_tags.first_blocks(text, ('answer',)).get('answer') == answer


@pytest.mark.parametrize('text, found', [
    ('<route_10>a</route_10><route_1>b</route_1>', {'route_10': 'a', 'route_1': 'b'}),
    ('<route_1>a<route_2>b</route_2></route_1>', {'route_2': 'b'}),  # Nested: the inner one.
    ('<route_1>a</route_2>', {}),
    ('<route_1>a</route_2></route_1>', {}),
    ('<route_3>a</route_3>', {}),
])
def test_several_names(text, found):
  assert answer_tags.first_blocks(text, ROUTES) == found


PIECES = ['<route_1>', '</route_1>', '<route_2>', '</route_2>', 'UP', '<', '</think>']


@hypothesis.settings(max_examples=200, deadline=None)
@hypothesis.given(st.lists(st.sampled_from(PIECES)))
def test_blocks_are_flat_and_balanced(pieces):
  found = answer_tags.first_blocks(''.join(pieces), ROUTES)
  for name, content in found.items():
    assert f'<{name}>{content}</{name}>' in ''.join(pieces)
    assert 'route_' not in content and '</think>' not in content


@pytest.mark.parametrize('piece', ['<answer>', '<', '</answer>', '<answer>1</answer>', '<answer>1</answer', '</think>'])
def test_a_million_characters_take_no_time(piece):
  text = piece * (10**6 // len(piece))
  begin = time.process_time()
  answer_tags.first_blocks(text, ('answer',))
  assert time.process_time() - begin < 1  # About .05 s; quadratic time would be minutes.
