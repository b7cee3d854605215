"""SASL on this broker's listeners: the exchange on a connection, and what its mechanisms know of users and tokens."""
