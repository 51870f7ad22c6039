"""The state of random number generators as JSON: nothing in a checkpoint is ever executed, as a pickle would be."""

import contextlib
import functools
import json
import random

import numpy as np

SEED = "seed_sequence"  # in the state of a generator of NumPy, which has no such part: what it makes others from
MADE = "n_children_spawned"


def callbacks(name: str, rng):
    """A pair of save() and load(bytes) for a generator of NumPy or of the standard library."""
    get, put = _access(name, rng)
    return lambda: json.dumps(_encode(get())).encode(), lambda data: put(_decode(json.loads(data)))


def _access(name, rng):
    """How to read and how to set the state, in the generator's own form."""
    if isinstance(rng, np.random.Generator):
        rng = rng.bit_generator
    if isinstance(rng, np.random.BitGenerator):
        return functools.partial(_state_of, rng), functools.partial(_put_state, rng)
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


def _seed_of(rng: np.random.BitGenerator):
    seed = getattr(rng, "seed_seq", None)  # NumPy before 1.25 has none
    if not isinstance(seed, np.random.SeedSequence):
        return None
    return {name: getattr(seed, name) for name in ("entropy", "spawn_key", "pool_size", MADE)}


def _state_of(rng: np.random.BitGenerator) -> dict:
    seed = _seed_of(rng)
    return rng.state if seed is None else {**rng.state, SEED: seed}


def _put_state(rng: np.random.BitGenerator, state: dict) -> None:
    """With how many generators it has made by spawn(), so that it makes none again."""
    saved, now = state.pop(SEED, None), _seed_of(rng)
    rng.state = state
    if saved is None or now is None or _encode(saved) == _encode(now):
        return
    if _encode({**saved, MADE: 0}) == _encode({**now, MADE: 0}) and now[MADE] < saved[MADE]:
        rng.seed_seq.spawn(saved[MADE] - now[MADE])  # the program may hold it, too
    else:
        with contextlib.suppress(TypeError):  # NumPy before 2.0 cannot, and `state` is set already
            rng.__setstate__((state, np.random.SeedSequence(**saved)))


def _encode(value):
    """As JSON can hold it: arrays and tuples are marked, so that they come back as what they were."""
    if isinstance(value, dict):
        return {key: _encode(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return {"tuple": [_encode(item) for item in value]}
    if isinstance(value, list):
        return [_encode(item) for item in value]
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
