"""How models are composed, and how the evaluation treats them as guests."""
