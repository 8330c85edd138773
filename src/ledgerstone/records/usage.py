"""Tokens and money: integers only."""

from __future__ import annotations

import msgspec

from ledgerstone.errors import InvalidValue

_CODES = (
    "AED AFN ALL AMD ANG AOA ARS AUD AWG AZN BAM BBD BDT BGN BHD BIF BMD BND BOB BOV BRL BSD BTN "
    "BWP BYN BZD CAD CDF CHE CHF CHW CLF CLP CNY COP COU CRC CUP CVE CZK DJF DKK DOP DZD EGP ERN "
    "ETB EUR FJD FKP GBP GEL GHS GIP GMD GNF GTQ GYD HKD HNL HTG HUF IDR ILS INR IQD IRR ISK JMD "
    "JOD JPY KES KGS KHR KMF KPW KRW KWD KYD KZT LAK LBP LKR LRD LSL LYD MAD MDL MGA MKD MMK MNT "
    "MOP MRU MUR MVR MWK MXN MXV MYR MZN NAD NGN NIO NOK NPR NZD OMR PAB PEN PGK PHP PKR PLN PYG "
    "QAR RON RSD RUB RWF SAR SBD SCR SDG SEK SGD SHP SLE SOS SRD SSP STN SVC SYP SZL THB TJS TMT "
    "TND TOP TRY TTD TWD TZS UAH UGX USD USN UYI UYU UYW UZS VED VES VND VUV WST XAF XCD XDR XOF "
    "XPF XSU XUA YER ZAR ZMW ZWG"
)
CURRENCIES = frozenset(_CODES.split())


COUNT_BOUND = 1 << 53
"""One use, and one cost, stays below: sums of many still fit in 64 bits."""


class Usage(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Token counts of one model call; `total` is as the provider gave it."""

    input: int = 0
    output: int = 0
    cached_input: int = 0
    cache_write: int = 0
    reasoning: int = 0
    total: int | None = None

    @property
    def total_tokens(self) -> int:
        """The given total, or input plus output."""
        return self.input + self.output if self.total is None else self.total

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.input + other.input,
            self.output + other.output,
            self.cached_input + other.cached_input,
            self.cache_write + other.cache_write,
            self.reasoning + other.reasoning,
            self.total_tokens + other.total_tokens,
        )

    def check(self, field: str) -> None:
        """Raise InvalidValue unless every count is an integer; corrections may be negative."""
        for name in self.__struct_fields__:
            count = getattr(self, name)
            if count is None and name == "total":
                continue
            if type(count) is not int or abs(count) >= 1 << 62:
                raise InvalidValue(f"{field}.{name}", "an integer below 2^62 expected")


class Cost(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, repr_omit_defaults=True):
    """Money in integer nano-units (1 USD = 1,000,000,000); the currency is always written out.

    `nano` is the total. `input_nano` and `output_nano` are what of it the input and the output
    cost, where that is known; the rest is neither, such as a fee per call. Sums have totals only.
    """

    nano: int
    # A factory, for a plain default is left out.
    currency: str = msgspec.field(default_factory=lambda: "USD")
    input_nano: int | None = None
    output_nano: int | None = None


class UsageEntry(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """One recorded use, or one line of the merged ledger.

    `estimated`: nobody told the cost, it was worked out from a price list. `message` is the one
    that it was used for; `id` is empty where the record's id follows from its place.
    """

    model: str
    usage: Usage
    source: str = ""
    provider: str | None = None
    cost: Cost | None = None
    run_id: str | None = None
    estimated: bool = False
    id: str = ""
    message: str | None = None
