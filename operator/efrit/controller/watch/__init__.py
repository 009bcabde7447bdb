"""Events in: kopf handlers fill an in-memory store and a keyed work queue. Nothing here decides or writes."""
