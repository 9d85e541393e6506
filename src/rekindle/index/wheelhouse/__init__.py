"""What a wheelhouse holds: wheels checked and stored, their rows, the search over them, the signed list of it all."""
