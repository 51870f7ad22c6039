"""The state of random number generators as JSON: nothing in a checkpoint is ever executed, as a pickle would be."""

import json
import random

import numpy as np


def callbacks(name: str, rng):
    """A pair of save() and load(bytes) for a generator of NumPy or of the standard library."""
    get, put = _access(name, rng)
    return lambda: json.dumps(_encode(get())).encode(), lambda data: put(_decode(json.loads(data)))


def _access(name, rng):
    """How to read and how to set the state, in the generator's own form."""
    if isinstance(rng, np.random.Generator):
        rng = rng.bit_generator
    if isinstance(rng, np.random.BitGenerator):
        return lambda: rng.state, lambda state: setattr(rng, "state", state)
    if isinstance(rng, np.random.RandomState):
        return lambda: rng.get_state(legacy=False), rng.set_state
    if isinstance(rng, random.Random):
        return rng.getstate, rng.setstate
    from .session import Code, Error

    raise Error(
        Code.invalid_argument,
        f"region '{name}' is a {type(rng).__name__}, and must be a generator of numpy.random or random.Random; "
        "for another one give save and load",
    )


def _encode(value):
    """As JSON can hold it: arrays and tuples are marked, so that they come back as what they were."""
    if isinstance(value, dict):
        return {key: _encode(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return {"tuple": [_encode(item) for item in value]}
    if isinstance(value, np.ndarray):
        return {"array": value.tolist(), "dtype": str(value.dtype)}
    return value.item() if isinstance(value, np.generic) else value


def _decode(value):
    if not isinstance(value, dict):
        return value
    if "array" in value:
        return np.array(value["array"], value["dtype"])
    if "tuple" in value:
        return tuple(_decode(item) for item in value["tuple"])
    return {key: _decode(item) for key, item in value.items()}
