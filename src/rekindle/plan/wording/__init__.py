"""What was decided, said: a module per part of the plan; :mod:`document` composes it. Nothing here decides."""
