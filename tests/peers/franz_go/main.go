// A client by franz-go that logs in, writes, works in a group and reads all back, then does what is not allowed.
//
// Arguments: addresses, file of the authority, topic, mechanism, user, password. What it asserts is printed as one line
// that begins with "ok"; anything else is a failure, with exit code 1. For OAUTHBEARER the password is a token.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

const records = 1000

func check(err error, what string) {
	if err != nil {
		fmt.Printf("%s: %v\n", what, err)
		os.Exit(1)
	}
}

func mechanism(name, user, password string) sasl.Mechanism {
	name, isToken := strings.CutSuffix(name, "+token")
	switch name {
	case "PLAIN":
		return plain.Auth{User: user, Pass: password}.AsMechanism()
	case "SCRAM-SHA-256":
		return scram.Auth{User: user, Pass: password, IsToken: isToken}.AsSha256Mechanism()
	case "SCRAM-SHA-512":
		return scram.Auth{User: user, Pass: password, IsToken: isToken}.AsSha512Mechanism()
	case "OAUTHBEARER":
		return oauth.Auth{Token: password}.AsMechanism()
	}
	panic("unknown mechanism " + name)
}

func main() {
	seeds, ca, topic, name, user, password := os.Args[1], os.Args[2], os.Args[3], os.Args[4], os.Args[5], os.Args[6]
	pem, err := os.ReadFile(ca)
	check(err, "authority")
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pem)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	connect := func(password string, more ...kgo.Opt) *kgo.Client {
		options := []kgo.Opt{
			kgo.SeedBrokers(strings.Split(seeds, ",")...),
			kgo.DialTLSConfig(&tls.Config{RootCAs: pool}),
			kgo.SASL(mechanism(name, user, password)),
			kgo.RetryTimeout(20 * time.Second),
		}
		client, err := kgo.NewClient(append(options, more...)...)
		check(err, "client")
		return client
	}

	writer := connect(password, kgo.TransactionalID("franz-"+topic))
	check(writer.BeginTransaction(), "begin")
	for number := range records {
		record := &kgo.Record{Topic: topic, Value: fmt.Appendf(nil, "%s-%d", name, number)}
		writer.Produce(ctx, record, func(_ *kgo.Record, err error) { check(err, "produce") })
	}
	check(writer.Flush(ctx), "flush")
	check(writer.EndTransaction(ctx, kgo.TryCommit), "commit")
	writer.Close()

	reader := connect(password, kgo.ConsumerGroup("team-"+topic), kgo.ConsumeTopics(topic),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	seen := map[string]int{}
	for len(seen) < records {
		fetches := reader.PollFetches(ctx)
		check(fetches.Err(), "fetch")
		fetches.EachRecord(func(record *kgo.Record) { seen[string(record.Value)]++ })
	}
	for value, count := range seen {
		if count != 1 || !strings.HasPrefix(value, name+"-") {
			check(fmt.Errorf("%d times", count), value)
		}
	}
	check(reader.CommitUncommittedOffsets(ctx), "commit offsets")
	reader.Close()

	if user != "admin" {
		stranger := connect(password)
		err = stranger.ProduceSync(ctx, &kgo.Record{Topic: "closed", Value: []byte("x")}).FirstErr()
		if !errors.Is(err, kerr.TopicAuthorizationFailed) {
			check(fmt.Errorf("it may write to a closed topic: %v", err), "produce")
		}
		stranger.Close()
	}

	wrong := connect(password + "x")
	err = wrong.Ping(ctx)
	// That of OAUTHBEARER it reads as an answer that it does not understand, and says so.
	refused := name == "OAUTHBEARER" && err != nil && strings.Contains(err.Error(), "unexpected data in oauth response")
	if !refused && !errors.Is(err, kerr.SaslAuthenticationFailed) {
		check(fmt.Errorf("a wrong password: %v", err), "ping")
	}
	wrong.Close()
	fmt.Printf("ok: %d records by %s\n", records, name)
}
