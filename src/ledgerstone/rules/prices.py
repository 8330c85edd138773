"""What models cost: a price list, and the cost of a use by it.

The built-in list is in prices.json beside this file, with the day it was made. Prices change, so
a program that bills anybody gives its own.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from functools import cache
from typing import Any

import msgspec

from ledgerstone.codec import parse_strict
from ledgerstone.errors import InvalidValue
from ledgerstone.money import NANO
from ledgerstone.records.usage import COUNT_BOUND, CURRENCIES, Cost, Usage

TOKENS_PER_PRICE = 1_000_000
SEPARATORS = "-:@"
KNOWN_MAX = 1024
FILE_BYTES_MAX = 1 << 24

_BUILT_IN = __file__.removesuffix(".py") + ".json"
_VERSION = re.compile(
    rf"[{re.escape(SEPARATORS)}]"
    r"(20\d\d-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])"
    r"|20\d\d(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])|latest)\Z",
    re.ASCII,
)
_DECIMAL = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?")
_AMOUNTS = ("input", "output", "cached_input", "cache_write")
_NEEDED = ("input", "output")


class Price(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a million tokens of each kind cost, in integer nano-units of the currency.

    What `cached_input` and `cache_write` leave open costs as `input`; reasoning is part of the
    output. `cached_beside`: the provider counts cached and written tokens beside `input`, not
    in it.
    """

    input: int
    output: int
    cached_input: int | None = None
    cache_write: int | None = None
    cached_beside: bool = False
    currency: str = "USD"

    def cost(self, usage: Usage) -> Cost:
        """What a use costs: rounded once, half away from zero, so that a correction cancels it.

        Of the parts only the output is rounded, so that they add up to the total.
        """
        cached, written, plain = usage.cached_input, usage.cache_write, usage.input
        if not self.cached_beside:
            plain = _rest(plain, cached + written)
        output = usage.output * self.output
        amount = (
            plain * self.input
            + output
            + cached * (self.input if self.cached_input is None else self.cached_input)
            + written * (self.input if self.cache_write is None else self.cache_write)
        )
        total, output_nano = _rounded(amount), _rounded(output)
        return Cost(total, self.currency, total - output_nano, output_nano)


def _rounded(amount: int) -> int:
    nano = (abs(amount) + TOKENS_PER_PRICE // 2) // TOKENS_PER_PRICE
    return nano if amount >= 0 else -nano


def _rest(whole: int, part: int) -> int:
    """What is left of the input beside its cached part; never of the other sign."""
    rest = whole - part
    return rest if (rest >= 0) == (whole >= 0) else 0


class Prices:
    """A price list. Only what it names has a price: the cost of anything else is unknown.

    A model is found by its own name, then as provider/model, then so without the date or the
    `latest` that it ends with. Any other ending may be another model, and is not guessed at.
    """

    def __init__(self, models: Mapping[str, Price | Mapping[str, Any]], *, as_of: str = "") -> None:
        if not isinstance(models, Mapping):
            raise InvalidValue("prices", f"a mapping expected, got {type(models).__name__}")
        self.as_of = as_of
        self._models = {_name(model): _price(model, given) for model, given in models.items()}
        self._found: dict[tuple[str, str | None], Price | None] = {}

    def __len__(self) -> int:
        return len(self._models)

    def __repr__(self) -> str:
        return f"<Prices of {len(self)} models{self.as_of and ' as of ' + self.as_of}>"

    @staticmethod
    def built_in() -> Prices:
        """Public list prices of well-known models; `as_of` says when they were written down."""
        return _built_in()

    def extended(self, models: Mapping[str, Price | Mapping[str, Any]]) -> Prices:
        """This list with more models, or with other prices for those it has."""
        more = Prices(models)
        return Prices({**self._models, **more._models}, as_of=self.as_of)

    def find(self, model: str, provider: str | None = None) -> Price | None:
        """The price of a model; None when nobody knows it."""
        key = (model, provider)
        try:
            return self._found[key]
        except KeyError:
            pass
        names = [model] if not provider else [model, f"{provider}/{model}"]
        names += [base for name in names if (base := _VERSION.sub("", name)) != name]
        found = next((self._models[name] for name in names if name in self._models), None)
        if len(self._found) >= KNOWN_MAX:
            self._found = {}
        self._found[key] = found
        return found

    def cost(self, model: str, usage: Usage, provider: str | None = None) -> Cost | None:
        """What a use of a model costs; None when its price is not known, or the cost no sum."""
        price = self.find(model, provider)
        cost = None if price is None else price.cost(usage)
        return None if cost is None or abs(cost.nano) >= COUNT_BOUND else cost


def open_prices(given: object) -> Prices:
    """The price list a store works with: the built-in one, or as given.

    Prices, a mapping of models, or the path of a JSON file; InvalidValue names what is wrong.
    """
    if given is None:
        return _built_in()
    if isinstance(given, Prices):
        return given
    if isinstance(given, str | os.PathLike):
        return _load(os.fspath(given))
    if isinstance(given, Mapping):
        return _table(given)
    raise InvalidValue(
        "prices", f"Prices, a mapping or a path expected, got {type(given).__name__}"
    )


@cache
def _built_in() -> Prices:
    named = _load(_BUILT_IN)
    bare = {name.partition("/")[2]: price for name, price in named._models.items()}
    return Prices({**named._models, **bare}, as_of=named.as_of)


def _load(path: str | bytes) -> Prices:
    try:
        with open(path, "rb") as file:  # noqa: PTH123
            data = file.read(FILE_BYTES_MAX)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InvalidValue("prices", f"{os.fsdecode(path)!r:.200}: {reason}") from None
    return _table(parse_strict(data, "prices"))


def _table(given: Any) -> Prices:
    """A mapping of models; or one with `models`, and for all of them `currency` and `as_of`."""
    if not isinstance(given, Mapping):
        raise InvalidValue("prices", f"an object expected, got {type(given).__name__}")
    models = given.get("models")
    if not isinstance(models, Mapping):
        return Prices(given)
    currency, as_of = given.get("currency", "USD"), given.get("as_of", "")
    whole = {
        name: {"currency": currency, **price} if isinstance(price, Mapping) else price
        for name, price in models.items()
    }
    return Prices(whole, as_of=str(as_of))


def _name(model: object) -> str:
    if not isinstance(model, str) or not model:
        raise InvalidValue("prices", f"the name of a model expected, got {model!r:.40}")
    return model


def _price(model: str, given: object) -> Price:
    """One entry, checked; a gap is named."""
    field = f"prices.{model[:64]}"
    if isinstance(given, Price):
        given = msgspec.structs.asdict(given)
    if not isinstance(given, Mapping):
        raise InvalidValue(field, f"a Price or a mapping expected, got {type(given).__name__}")
    known = Price.__struct_fields__
    for name in given:
        if name not in known:
            raise InvalidValue(f"{field}.{name!s:.40}", f"unknown; there is {', '.join(known)}")
    amounts = {name: _amount(f"{field}.{name}", given.get(name)) for name in _AMOUNTS}
    for name in _NEEDED:
        if amounts[name] is None:
            raise InvalidValue(f"{field}.{name}", "missing: without it a cost would be wrong")
    beside, currency = given.get("cached_beside", False), given.get("currency", "USD")
    if type(beside) is not bool:
        raise InvalidValue(f"{field}.cached_beside", "True or False expected")
    if currency not in CURRENCIES:
        raise InvalidValue(f"{field}.currency", f"{currency!r:.40} is no ISO 4217 code")
    return Price(
        input=amounts["input"] or 0,
        output=amounts["output"] or 0,
        cached_input=amounts["cached_input"],
        cache_write=amounts["cache_write"],
        cached_beside=beside,
        currency=currency,
    )


def _amount(field: str, value: object) -> int | None:
    """Nano-units as an integer, or whole units as decimal text: "1.25"."""
    if value is None:
        return None
    if isinstance(value, str) and _DECIMAL.fullmatch(value):
        units, _, rest = value.partition(".")
        return int(units) * NANO + int(rest.ljust(9, "0"))
    if type(value) is not int or not 0 <= value < COUNT_BOUND:
        raise InvalidValue(
            field, f"nano-units as an integer, or units as text like '1.25', got {value!r:.40}"
        )
    return value
