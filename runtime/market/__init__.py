"""Books, orders, risk and positions."""
