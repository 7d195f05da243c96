// Logs in by every mechanism that it is told of, within TLS, and produces; then reads everything in a consumer group of
// the consumer protocol and works it off in a share group. The order comes as JSON on standard input, the answer leaves
// as JSON on standard output.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sort"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

type order struct {
	Servers, Authority, User, Password, Token, Topic, Group, Shares string
	Mechanisms                                                      []string
}

type answer struct {
	Produced map[string]string `json:"produced"` // by mechanism: "" or the error
	Refused  map[string]bool   `json:"refused"`  // the same with a wrong password
	Read     []string          `json:"read"`
	Worked   []string          `json:"worked"`
	Again    []string          `json:"again"` // what a second share consumer still finds
}

func main() {
	var o order
	must(json.NewDecoder(os.Stdin).Decode(&o))
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Second)
	defer cancel()
	told := answer{Produced: map[string]string{}, Refused: map[string]bool{}}
	for _, mechanism := range o.Mechanisms {
		told.Produced[mechanism] = produce(ctx, o, mechanism)
		told.Refused[mechanism] = isRefused(ctx, o, mechanism)
	}
	told.Read = read(ctx, o, len(o.Mechanisms))
	told.Worked = work(ctx, o, len(o.Mechanisms), 20*time.Second)
	told.Again = work(ctx, o, 1, time.Second)
	must(json.NewEncoder(os.Stdout).Encode(told))
}

func client(o order, mechanism string, wrong bool, options ...kgo.Opt) *kgo.Client {
	pem, err := os.ReadFile(o.Authority)
	must(err)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pem)
	made, err := kgo.NewClient(append(options,
		kgo.SeedBrokers(o.Servers),
		kgo.DialTLSConfig(&tls.Config{RootCAs: pool, ServerName: "localhost"}),
		kgo.SASL(login(o, mechanism, wrong)),
		kgo.RecordRetries(2),
		kgo.RequestRetries(1),
	)...)
	must(err)
	return made
}

func login(o order, mechanism string, wrong bool) sasl.Mechanism {
	password, token := o.Password, o.Token
	if wrong {
		password, token = "wrong", token+"x"
	}
	switch mechanism {
	case "PLAIN":
		return plain.Auth{User: o.User, Pass: password}.AsMechanism()
	case "SCRAM-SHA-256":
		return scram.Auth{User: o.User, Pass: password}.AsSha256Mechanism()
	case "SCRAM-SHA-512":
		return scram.Auth{User: o.User, Pass: password}.AsSha512Mechanism()
	default:
		return oauth.Auth{Token: token}.AsMechanism()
	}
}

func produce(ctx context.Context, o order, mechanism string) string {
	cl := client(o, mechanism, false, kgo.DefaultProduceTopic(o.Topic))
	defer cl.Close()
	limited, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if err := cl.ProduceSync(limited, kgo.StringRecord(mechanism)).FirstErr(); err != nil {
		return err.Error()
	}
	return ""
}

// Whether a wrong password or token ends with an answer, and not with silence.
func isRefused(ctx context.Context, o order, mechanism string) bool {
	cl := client(o, mechanism, true)
	defer cl.Close()
	limited, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	err := cl.Ping(limited)
	return err != nil && !errors.Is(err, context.DeadlineExceeded)
}

func read(ctx context.Context, o order, count int) []string {
	cl := client(o, o.Mechanisms[0], false,
		kgo.ConsumeTopics(o.Topic), kgo.ConsumerGroup(o.Group), kgo.ServerSideBalancer(),
		kgo.Balancers(kgo.RangeBalancer()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	defer cl.Close()
	found := take(ctx, cl, count, 20*time.Second)
	must(cl.CommitUncommittedOffsets(ctx))
	return found
}

func work(ctx context.Context, o order, count int, limit time.Duration) []string {
	cl := client(o, o.Mechanisms[0], false, kgo.ConsumeTopics(o.Topic), kgo.ShareGroup(o.Shares))
	defer cl.Close()
	found := take(ctx, cl, count, limit)
	must(cl.FlushAcks(ctx))
	return found
}

func take(ctx context.Context, cl *kgo.Client, count int, limit time.Duration) []string {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	found := []string{}
	for len(found) < count && limited.Err() == nil {
		fetches := cl.PollFetches(limited)
		fetches.EachRecord(func(record *kgo.Record) { found = append(found, string(record.Value)) })
		cl.MarkAcks(kgo.AckAccept) // for a share group only
	}
	sort.Strings(found)
	return found
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
