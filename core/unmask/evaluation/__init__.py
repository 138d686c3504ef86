"""The evaluation: the door to a model, the loop of an attack, the judging of what it found."""
