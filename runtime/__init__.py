"""What every process of a run stands on."""
