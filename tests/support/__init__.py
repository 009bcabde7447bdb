"""What several tiers of the tests share: a tier never imports another one."""
