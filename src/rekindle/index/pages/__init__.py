"""What is written for readers: the pages installers read, and those for people."""
