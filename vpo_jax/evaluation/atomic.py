"""Files that are either whole or absent: written beside their place, then renamed onto it."""

import os

from etils import epath


def write_atomically(path: epath.PathLike, content: bytes) -> None:
  """Writes `content` to `path`, making its folder; a reader, or a killed run, never leaves or sees half a file."""
  path = epath.Path(path)
  path.parent.mkdir(parents=True, exist_ok=True)
  temporary = path.parent / f'.{path.name}.{os.getpid()}'
  temporary.write_bytes(content)
  temporary.replace(path)
