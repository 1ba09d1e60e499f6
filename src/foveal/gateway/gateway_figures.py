"""The figures of a gateway for people and programs: sums, and a line for each conversation that it knows."""

import re

import msgspec

from foveal.gateway.conversations import CallFigures, ClientConversations
from foveal.gateway.input_cost import InputBills

_PRODUCT = re.compile(r"([^\s/()]+(?:/(?!v\d)[A-Za-z][^\s/()]*)?)(?:[/ ]v?(\d[^\s()]*))?")
_MOST_AGENT = 60


class MoneyFigures(msgspec.Struct, frozen=True):
    """The price of the input in USD: of the requests as clients asked for them, and as Foveal made them."""

    asked_usd: float
    sent_usd: float
    saved_usd: float
    priced_calls: int
    reported_calls: int
    """Calls of them whose price follows from the provider's own counts; the rest is estimated."""
    unpriced_calls: int
    """Calls of models whose prices are not known: they are in no sum."""

    @staticmethod
    def of(bills: InputBills) -> "MoneyFigures":
        """Return the figures of two bills."""
        return MoneyFigures(**msgspec.structs.asdict(bills), saved_usd=bills.saved_usd)


class ConversationFigures(msgspec.Struct, frozen=True):
    """One conversation: its client, its model, its calls and its price."""

    session: str
    client: str
    """The family and version of the program, as it calls itself; empty if it does not."""
    seen_ms: int
    model: str
    figures: CallFigures
    money: MoneyFigures


class GatewayFigures(msgspec.Struct, frozen=True):
    """A gateway since it was started."""

    is_watching: bool
    """Whether it forwards everything as it came."""
    total: CallFigures
    money: MoneyFigures
    conversations: tuple[ConversationFigures, ...]
    """Those that were heard of last, newest first. The oldest are forgotten; the sums have them."""

    @property
    def has_changed_something(self) -> bool:
        """Whether any request was sent otherwise than its client asked for."""
        total = self.total
        return not self.is_watching and (total.folds > 0 or total.asked_tokens != total.sent_tokens)


def gateway_figures(conversations: ClientConversations, *, is_watching: bool) -> GatewayFigures:
    """Return the figures of a gateway, now."""
    bills, lines = conversations.rested, list[ConversationFigures]()
    for one in conversations:
        bills = bills.plus(one.cost.bills)
        if one.figures != CallFigures():
            figures = msgspec.structs.replace(one.figures)
            client = client_family(one.client.agent)
            model = one.model.partition(" ")[2]
            lines.append(
                ConversationFigures(
                    one.name, client, one.client.seen_ms, model, figures, MoneyFigures.of(one.cost.bills)
                )
            )
    lines.sort(key=lambda line: line.seen_ms, reverse=True)
    total = msgspec.structs.replace(conversations.figures)
    return GatewayFigures(is_watching, total, MoneyFigures.of(bills), tuple(lines))


def client_family(agent: str) -> str:
    """Return the name and the version at the beginning of a `user-agent`."""
    found = _PRODUCT.match(agent.strip()[:500])
    return " ".join(filter(None, found.groups()))[:_MOST_AGENT] if found else ""
