"""FedRAP as published: Eq. 3 with its curricula and variants. Filled by the next change."""
