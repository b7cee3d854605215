"""How clients of ours get their OAUTHBEARER tokens: a token endpoint, a file, or a class of the user's (KIP-768)."""
