"""What a broker shows over HTTP: metrics for Prometheus and its health. Off unless `odradek.http.port` is set."""
