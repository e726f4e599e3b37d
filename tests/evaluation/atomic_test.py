import pytest

from vpo_jax.evaluation import atomic


def test_writes_whole_files_into_new_folders(tmp_path):
  atomic.write_atomically(tmp_path / 'new' / 'file', b'one')
  atomic.write_atomically(str(tmp_path / 'new' / 'file'), b'two')
  assert (tmp_path / 'new' / 'file').read_bytes() == b'two'
  assert [path.name for path in (tmp_path / 'new').iterdir()] == ['file']


def test_an_interrupted_write_leaves_the_old_file(tmp_path, monkeypatch):
  atomic.write_atomically(tmp_path / 'file', b'old')
  import etils.epath.gpath as gpath

  def interrupted(self, target):
    raise KeyboardInterrupt
  monkeypatch.setattr(gpath.PosixGPath, 'replace', interrupted)
  with pytest.raises(KeyboardInterrupt):
    atomic.write_atomically(tmp_path / 'file', b'new')
  assert (tmp_path / 'file').read_bytes() == b'old'
