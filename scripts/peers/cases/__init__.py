"""The forward test cases of other projects as data: what they call, with which tensors, and how close results must be.
docs/peer_cases.md says what is here and how the counts come about."""
