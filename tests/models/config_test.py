import dataclasses

import pytest

from tests.tiny_model import CONFIG


@pytest.mark.parametrize('field, value, rule', [
    ('vocab_size', 0, 'at least 1'), ('num_layers', -1, 'at least 1'), ('d_ff', 0, 'at least 1'),
    ('num_heads', 3, 'multiple of model.num_kv_heads=2'), ('head_dim', 5, 'even'),
    ('dtype', 'float64', 'float32, bfloat16 or float16')])
def test_error_names_field_value_and_rule(field, value, rule):
  with pytest.raises(ValueError, match=rf'model\.{field}={value!r}.*{rule}'):
    dataclasses.replace(CONFIG, **{field: value})
