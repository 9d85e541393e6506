"""All contact with the machine goes through here, so that a machine can be recorded once and replayed."""
