"""Ways to train models whose adversarial examples do not carry over to one another."""
