"""Floor 0: clock, timing wheel, timer, delayed operations and purgatory, scheduler."""
