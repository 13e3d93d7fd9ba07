"""What `sample` returns: a minibatch, as arrays in the buffer's own memory."""

import operator
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from cpreplay.schema import TRANSITION, Column, Layout, unstored_column

#: What a draw adds to the columns of a transition. No buffer's column has the name of the third.
INDICES = unstored_column("indices", "int64")
WEIGHTS = unstored_column("weights", "float32")
TOKENS = unstored_column("draw tokens", "int32", (2,))


def of_draw(*, weighted: bool) -> tuple[Column, Column | None, Column | None]:
    """What stands behind the columns in a batch's arrays; None where there is no such array."""
    return (INDICES, WEIGHTS, TOKENS) if weighted else (INDICES, None, None)


class Batch:
    """A minibatch of B transitions; lane i of every array belongs to one stored row.

    Arrays are NumPy's from a host buffer and CuPy's from a device buffer: C-contiguous, writable
    and aligned to 64 bytes, so that ``torch.from_dlpack``, ``jnp.from_dlpack`` and the like take
    them without a copy. ``map`` does that for all of them at once::

        batch = buffer.sample(256).map(torch.from_dlpack)

    Attributes
    ----------
    obs, next_obs : array, shape (B,) + obs_shape
        ``obs_dtype``; float32 where stored as uint8 codes.
    action : array, shape (B,) + action_shape
        ``action_dtype``.
    reward : array of float32, shape (B,)
    terminated : array of bool, shape (B,)
        Whether the MDP ended with this step. A step that only ran out of time is False, so the
        target ``reward + gamma * value(next_obs) * ~terminated`` bootstraps there.
    indices : array of int64, shape (B,)
        The rows that were drawn.
    weights : array of float32, shape (B,), or None
        Importance-sampling weights, of a prioritized buffer: what a lane's loss is multiplied by.
        The largest of a batch is 1.
    extra : dict
        The caller's extra columns, by name.
    """

    __slots__ = ("_memory", "_tokens", "action", "extra", "indices", "next_obs", "obs", "reward",
                 "terminated", "weights")  # fmt: skip

    def __init__(
        self, names: Sequence[str], arrays: Sequence[Any], memory: "BatchMemory | None" = None
    ) -> None:
        # The columns of those names, then what `of_draw` says. Tokens are when each lane was drawn:
        # update_priorities sees by them which rows have been overwritten since. An array like the
        # others, so that it is mapped and sliced with them; of words that every framework keeps.
        (self.obs, self.action, self.reward, self.next_obs, self.terminated,
         *extra, self.indices, self.weights, self._tokens) = arrays  # fmt: skip
        self.extra = dict(zip(names[len(TRANSITION) :], extra, strict=True)) if extra else {}
        self._memory: Any = memory  # a mapped, copied or unpickled batch has none

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, name: str) -> Any:
        """A column by name: the five of a transition, indices, weights, or an extra column."""
        if name in self.extra:
            return self.extra[name]
        if name in TRANSITION or name in ("indices", "weights"):
            return getattr(self, name)
        raise KeyError(f"{name!r}: this batch has {', '.join(self._names())}")

    def __getattr__(self, name: str) -> Any:
        # Comes here only where there is no such attribute.
        if name.startswith("_") or name in self.__slots__:
            raise AttributeError(name)
        raise AttributeError(
            f"a Batch has no attribute {name!r}; its columns are {', '.join(self._names())}, and "
            'extra ones are taken by name, as in batch["discount"]'
        )

    def __contains__(self, name: object) -> bool:
        """Whether there is a column of that name."""
        return name in self._names()

    def __iter__(self) -> NoReturn:
        raise TypeError("a Batch does not unpack; take its columns by name, as in batch.obs")

    def __repr__(self) -> str:
        return f"Batch of {len(self)}: {', '.join(self._names())}"

    def map(self, function: Callable[[Any], Any]) -> "Batch":
        """A batch with ``function`` applied to every array, which is how it changes framework.

        Parameters
        ----------
        function : callable
            Of one array, such as ``torch.from_dlpack``.

        Returns
        -------
        Batch
            What it returned. Costs the calls alone. ``update_priorities`` takes it like the batch
            it came from, also where ``function`` keeps some lanes only; it cannot be given as
            ``out``.

        Notes
        -----
        Of a prioritized buffer, ``function`` also gets the lanes' draw tokens, int32 (B, 2).
        """
        arrays = [None if array is None else function(array) for array in self._arrays()]
        return Batch((*TRANSITION, *self.extra), arrays)

    def __reduce__(self) -> tuple[Any, ...]:
        # A copy is like a mapped batch: no back end fills it.
        return Batch, ((*TRANSITION, *self.extra), self._arrays())

    def _is_own(self, kind: type["BatchMemory"], layout: Layout, *, weighted: bool) -> bool:
        """Whether a back end can fill this batch: made by its like, and still the same arrays."""
        memory = self._memory
        if not (isinstance(memory, kind) and (memory.layout is layout or memory.layout == layout)):
            return False
        if (memory.arrays[-1] is not None) != weighted:
            return False
        try:
            mine = self._arrays()
        except AttributeError:  # one was deleted
            return False
        return len(mine) == len(memory.arrays) and all(map(operator.is_, mine, memory.arrays))

    def _arrays(self) -> tuple[Any, ...]:
        return (self.obs, self.action, self.reward, self.next_obs, self.terminated,
                *self.extra.values(), self.indices, self.weights, self._tokens)  # fmt: skip

    def _names(self) -> tuple[str, ...]:
        weights = () if self.weights is None else ("weights",)
        return (*TRANSITION, *self.extra, "indices", *weights)


class BatchMemory:
    """The arrays that a batch was made with, and what its back end needs to fill them.

    The addresses in it are of these arrays, so it keeps them, and is of no use for others.

    Parameters
    ----------
    layout : Layout
    arrays : tuple of array
        The columns, the indices, the weights and the draw tokens, or None for the last two.
    """

    __slots__ = ("__dict__", "arrays", "layout")

    def __init__(self, layout: Layout, arrays: tuple[Any, ...]) -> None:
        self.layout = layout
        self.arrays = arrays
