"""One module per process role; each is only wiring.

A role module has `create(context: ChildContext) -> RoleProcess` (see `tapewire.runtime.child`). A process
imports the module of its own role and no other.
"""

from __future__ import annotations

__all__ = ["MASTER", "ROLE_MODULES"]

#: Role of a topology → the module that runs it.
ROLE_MODULES: dict[str, str] = {
    "market_data": "tapewire.processes.market_data",
    "strategy": "tapewire.processes.strategy",
    "trade_gateway": "tapewire.processes.trade_gateway",
    "ledger": "tapewire.processes.ledger",
}

#: The name under which master itself is started.
MASTER = "master"
