"""Give functions that are alive other code: mutants and probes need no second start of the interpreter."""

import gc
from collections import Counter
from collections.abc import Iterator
from types import CodeType, FunctionType


def codes_in(code: CodeType) -> Iterator[CodeType]:
    """Yield a code and all that are inside it."""
    yield code
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from codes_in(inner)


def replace_codes(made: list[CodeType]) -> None:
    """Give each function that is alive the code that was made for its file, its name and its line."""
    names = Counter(map(_key, made))
    codes = {_key(code): code for code in made if names[_key(code)] == 1}  # two lambdas of one line look alike
    gc.unfreeze()  # what is frozen, as the tests do with what they import, is not listed, until it is thawed
    for function in [one for one in gc.get_objects() if isinstance(one, FunctionType)]:
        code = codes.get(_key(function.__code__))
        if code and code.co_freevars == function.__code__.co_freevars:
            function.__code__ = code
    gc.freeze()


def _key(code: CodeType) -> tuple[str, str, int]:
    return code.co_filename, code.co_qualname, code.co_firstlineno
