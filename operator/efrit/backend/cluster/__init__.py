"""A cluster as a backend: work is an EfritRequest, an instance an EfritInstance, the operator does the rest."""
