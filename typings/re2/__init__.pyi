"""The part of google-re2 that Foveal uses: it ships no types of its own."""

from mmap import mmap

class error(Exception): ...

class Options:
    log_errors: bool
    max_mem: int
    never_capture: bool
    never_nl: bool

class _Match:
    def start(self) -> int: ...
    def end(self) -> int: ...

class _Regexp:
    def search(self, text: bytes | mmap, pos: int | None = None) -> _Match | None: ...

def compile(pattern: bytes, options: Options | None = None) -> _Regexp: ...
