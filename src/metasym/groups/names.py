"""Names of finite groups, up to isomorphism, from their multiplication tables.

A name is given only where it is proven: abelian groups by their numbers of elements of each order, the others by
elements that satisfy a presentation of the named group and generate a group of the same order, or as direct
products of such groups. All other groups stay without a name here; ``identification.py`` knows wreath products, by
their blocks.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Table = npt.NDArray[np.int64]
_MOST_NORMAL = 400
"""At most this many normal subgroups are examined for direct factors."""


@dataclass(frozen=True)
class Named:
    """A direct product: cyclic factors by their orders, and the names of the others."""

    cyclic: tuple[int, ...] = ()
    others: tuple[str, ...] = ()

    def __mul__(self, other: Named) -> Named:
        return Named(self.cyclic + other.cyclic, self.others + other.others)

    def __str__(self) -> str:
        cyclic, others = list(self.cyclic), []
        for name in self.others:
            n = int(name[2:]) if name.startswith("D_") and name[2:].isdigit() else 0
            if (
                n % 4 == 2
            ):  # D_2n is D_n x Z_2 for odd n: written as that product, so that isomorphic groups have one name
                others.append(_dihedral(n // 2))
                cyclic.append(2)
            else:
                others.append(name)
        half = {_dihedral(n): n for n in range(3, 1001, 2)}.get(others[0]) if len(others) == 1 else None
        if half is not None and cyclic == [2]:
            return f"D_{2 * half}"
        counted = Counter(others)
        rings = [f"Z_{order}" for order in invariant_factors(tuple(cyclic))]
        if len(others) == 1 and not rings:
            return others[0]
        parts = [
            bracketed(name) if times == 1 else f"{bracketed(name)}^{times}"
            for name, times in sorted(counted.items())
        ]
        return " x ".join(parts + rings) if parts or rings else "trivial"


def bracketed(name: str) -> str:
    """A name as a part of a larger one: products have brackets."""
    return f"({name})" if " " in name else name


def _dihedral(n: int) -> str:
    return "S_3" if n == 3 else f"D_{n}"


def invariant_factors(orders: tuple[int, ...]) -> list[int]:
    """Z_a x Z_b x ... with as few factors as can be: each divides the next. ``(3, 4) -> [12]``."""
    powers: dict[int, list[int]] = {}
    for order in orders:
        for prime, power in prime_powers(order):
            powers.setdefault(prime, []).append(prime**power)
    most = max((len(p) for p in powers.values()), default=0)
    columns = [sorted(p, reverse=True) + [1] * (most - len(p)) for p in powers.values()]
    return sorted(math.prod(column[i] for column in columns) for i in range(most))


def prime_powers(number: int) -> list[tuple[int, int]]:
    """The primes that divide ``number``, each with its power."""
    found, p = [], 2
    while number > 1:
        power = 0
        while number % p == 0:
            number, power = number // p, power + 1
        if power:
            found.append((p, power))
        p += 1
    return found


def name_of(table: Table) -> Named | None:
    """The name of the group with the multiplication table ``[order, order]``, element 0 its identity."""
    order = len(table)
    if order == 1:
        return Named()
    if np.array_equal(table, table.T):
        return Named(cyclic=_abelian(table))
    orders = element_orders(table)
    for n in range(3, 8):
        if order == math.factorial(n) and _is_symmetric(table, orders, n):
            return Named(others=(f"S_{n}",))
        if n > 3 and order == math.factorial(n) // 2 and _is_alternating(table, orders, n):
            return Named(others=(f"A_{n}",))
    if _is_dihedral(table, orders):
        return Named(others=(f"D_{order // 2}",))
    if order == 8:  # not abelian and not dihedral: there is one other
        return Named(others=("Q_8",))
    return _product(table)


def element_orders(table: Table) -> Table:
    """The order of each element, ``[order]``."""
    count = len(table)
    orders = np.ones(count, dtype=np.int64)
    power, every = np.arange(count), np.arange(count)
    open_ = power != 0
    while open_.any():
        power = table[power, every]
        orders[open_] += 1
        open_ &= power != 0
    return orders


def generated(table: Table, elements: Sequence[int], identity: int = 0) -> npt.NDArray[np.bool_]:
    """The subgroup that ``elements`` generate, as a mask ``[order]``."""
    reached = np.zeros(len(table), dtype=bool)
    reached[identity] = True
    frontier = np.array([identity])
    while len(frontier) and len(elements):
        products = np.unique(table[frontier][:, elements])
        frontier = products[~reached[products]]
        reached[frontier] = True
    return reached


def _abelian(table: Table) -> tuple[int, ...]:
    """The prime powers q whose Z_q multiply to the group, from how many elements each power of p takes to 1."""
    orders = element_orders(table)
    found: list[int] = []
    for p, power in prime_powers(len(table)):
        killed = [int(np.sum(p**i % orders == 0)) for i in range(power + 2)]
        # log_p killed[i] = sum over the cyclic factors p^e of min(e, i)
        logs = [round(math.log(k, p)) for k in killed]
        at_least = [logs[i + 1] - logs[i] for i in range(power + 1)]  # factors with e > i
        for i in range(power):
            found += [p ** (i + 1)] * (at_least[i] - at_least[i + 1])
    return tuple(found)


def _is_dihedral(table: Table, orders: Table) -> bool:
    """D_n of order 2 n: r of order n, and s of order 2 outside its powers with ``s r s = r^-1``."""
    n = len(table) // 2
    turns = np.flatnonzero(orders == n)
    if len(table) % 2 or n < 3 or not len(turns):
        return False
    r = int(turns[0])
    inverse = int(np.flatnonzero(table[r] == 0)[0])
    s = int(np.flatnonzero(~generated(table, [r]))[0])
    return bool(orders[s] == 2 and table[table[s, r], s] == inverse)


def _is_symmetric(table: Table, orders: Table, n: int) -> bool:
    """S_n by Coxeter's presentation: n - 1 involutions, neighbours with product of order 3, others commuting."""
    product = orders[table]

    def fits(chosen: list[int], t: int) -> bool:
        return all(product[c, t] == (3 if i == len(chosen) - 1 else 2) for i, c in enumerate(chosen))

    return _presented(table, np.flatnonzero(orders == 2), n - 1, fits)


def _is_alternating(table: Table, orders: Table, n: int) -> bool:
    """A_n by Carmichael's presentation: n - 2 elements of order 3 whose pairwise products have order 2."""
    product = orders[table]

    def fits(chosen: list[int], x: int) -> bool:
        return all(product[c, x] == 2 for c in chosen)

    return _presented(table, np.flatnonzero(orders == 3), n - 2, fits)


def _presented(table: Table, candidates: Table, count: int, fits: object) -> bool:
    """Whether ``count`` of the candidates satisfy the relations ``fits(chosen, next)`` and generate all."""
    assert callable(fits)

    def grow(chosen: list[int]) -> Iterator[list[int]]:
        if len(chosen) == count:
            yield chosen
            return
        for c in candidates.tolist():
            if fits(chosen, c):
                yield from grow([*chosen, c])

    budget = 200
    for chosen in grow([]):
        if generated(table, chosen).all():
            return True
        budget -= 1
        if budget == 0:
            return False
    return False


def _product(table: Table) -> Named | None:
    """A direct product of two named groups: normal subgroups that meet in the identity and fill the group."""
    order = len(table)
    normal = _normal_subgroups(table)
    sizes = [int(mask.sum()) for mask in normal]
    for a, size in enumerate(sizes):
        if size * size > order or order % size:
            continue
        for b, other in enumerate(sizes):
            if size * other != order or int((normal[a] & normal[b]).sum()) != 1:
                continue
            left, right = name_of(_restricted(table, normal[a])), name_of(_restricted(table, normal[b]))
            if left is not None and right is not None:
                return left * right
    return None


def _normal_subgroups(table: Table) -> list[npt.NDArray[np.bool_]]:
    """The proper normal subgroups that are not trivial, smallest first: joins of the closures of classes."""
    inverses = np.argmax(table == 0, axis=1)
    seen = np.zeros(len(table), dtype=bool)
    seen[0] = True
    found: dict[bytes, npt.NDArray[np.bool_]] = {}
    for g in range(1, len(table)):
        if seen[g]:
            continue
        conjugates = np.unique(table[table[:, g], inverses])
        seen[conjugates] = True
        mask = generated(table, conjugates.tolist())
        found[mask.tobytes()] = mask
    minimal = list(found.values())
    frontier = minimal
    while frontier and len(found) < _MOST_NORMAL:
        grown: list[npt.NDArray[np.bool_]] = []
        for one in frontier:
            for other in minimal:
                if not (other & ~one).any():
                    continue
                joined: npt.NDArray[np.bool_] = np.zeros(len(table), dtype=bool)
                joined[np.unique(table[np.ix_(one, other)])] = True  # both normal: their products are a group
                if joined.tobytes() not in found and not joined.all():
                    found[joined.tobytes()] = joined
                    grown.append(joined)
        frontier = grown
    proper = [mask for mask in found.values() if not mask.all()]
    return sorted(proper, key=lambda mask: int(mask.sum()))


def _restricted(table: Table, mask: npt.NDArray[np.bool_]) -> Table:
    """The table of a subgroup."""
    members = np.flatnonzero(mask)
    place = np.zeros(len(table), dtype=np.int64)
    place[members] = np.arange(len(members))
    restricted: Table = place[table[np.ix_(members, members)]]
    return restricted
