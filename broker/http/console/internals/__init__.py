"""What a broker's console shows of the broker's own workings, while somebody looks."""
