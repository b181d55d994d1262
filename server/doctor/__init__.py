"""`laguna doctor`: what a checkpoint, a pair and this machine are like, as findings with what to do about them."""
