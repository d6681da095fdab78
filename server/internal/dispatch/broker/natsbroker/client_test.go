package natsbroker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/dispatch/broker"
	"github.com/carillonhq/carillon/server/internal/testing/link"
)

const patience = 30 * time.Second

// startServer starts a server that ends with the test. It keeps messages of at most 4 KiB to runs.>, and of at
// most 100 bytes to small.
func startServer(t testing.TB, o natsserver.Options) *natsserver.Server {
	t.Helper()
	o.Host, o.NoLog, o.NoSigs = "127.0.0.1", true, true
	if o.Port == 0 {
		o.Port = natsserver.RANDOM_PORT
	}
	s, err := natsserver.NewServer(&o)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	if !s.ReadyForConnections(patience) {
		t.Fatal("nats-server does not start")
	}
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	return s
}

// withStreams makes the streams of the tests.
func withStreams(t testing.TB, s *natsserver.Server, options ...nats.Option) jetstream.Stream {
	t.Helper()
	nc, err := nats.Connect(s.ClientURL(), options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateOrUpdateStream(t.Context(), jetstream.StreamConfig{Name: "SMALL",
		Subjects: []string{"small"}, MaxMsgSize: 100}); err != nil {
		t.Fatal(err)
	}
	runs, err := js.CreateOrUpdateStream(t.Context(), jetstream.StreamConfig{Name: "RUNS",
		Subjects: []string{"runs.>"}})
	if err != nil {
		t.Fatal(err)
	}
	return runs
}

func jetStream(t testing.TB) natsserver.Options {
	return natsserver.Options{JetStream: true, StoreDir: t.TempDir(), MaxPayload: 4096}
}

func addressOf(s *natsserver.Server) string { return s.Addr().String() }

func newClient(t testing.TB, o Options) *Client {
	t.Helper()
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// message is a message to a subject.
func message(id, subject string, size int) broker.Message {
	return broker.Message{To: carillon.Target{NATS: &carillon.NATSTarget{Server: "s", Subject: subject}}, ID: id,
		Headers: []broker.Header{{Name: "ce-id", Value: id}}, Data: make([]byte, size)}
}

// publish publishes and waits for what became of each; done must be called once for each.
func publish(t testing.TB, c *Client, ms ...broker.Message) []error {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	errs, calls := make([]error, len(ms)), make([]int, len(ms))
	var mu sync.Mutex
	var all sync.WaitGroup
	all.Add(len(ms))
	c.Publish(ctx, ms, func(i int, err error) {
		mu.Lock()
		defer mu.Unlock()
		if calls[i]++; calls[i] == 1 {
			errs[i] = err
			all.Done()
		} else {
			t.Errorf("message %d has ended twice", i)
		}
	})
	all.Wait()
	return errs
}

// stored are the ids of the stream's messages, in order.
func stored(t testing.TB, s jetstream.Stream) (ids []string) {
	t.Helper()
	info, err := s.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for seq := info.State.FirstSeq; seq <= info.State.LastSeq; seq++ {
		m, err := s.GetMsg(t.Context(), seq)
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, m.Header.Get(nats.MsgIdHdr))
	}
	return ids
}

func TestOrderIsKept(t *testing.T) {
	s := startServer(t, jetStream(t))
	runs := withStreams(t, s)
	c := newClient(t, Options{Addresses: []string{addressOf(s)}})
	var ms []broker.Message
	for i := range 500 {
		ms = append(ms, message(strconv.Itoa(i), "runs.a", 10))
	}
	for i, err := range publish(t, c, ms...) {
		if err != nil {
			t.Fatalf("%d: %v", i, err)
		}
	}
	if err := publish(t, c, ms[7])[0]; err != nil { // again, as another attempt does
		t.Error(err)
	}
	ids := stored(t, runs)
	if len(ids) != len(ms) {
		t.Fatalf("%d messages, not %d", len(ids), len(ms))
	}
	for i, id := range ids {
		if id != strconv.Itoa(i) {
			t.Fatalf("message %d is %s", i, id)
		}
	}
}

// TestRefusals are of the messages concerned, and of no others of their batch.
func TestRefusals(t *testing.T) {
	o := jetStream(t)
	writer := &natsserver.User{Username: "writer", Password: "w", Permissions: &natsserver.Permissions{
		Publish: &natsserver.SubjectPermission{Deny: []string{"runs.secret"}}}}
	o.Users = []*natsserver.User{{Username: "admin", Password: "a"}, writer}
	s := startServer(t, o)
	withStreams(t, s, nats.UserInfo("admin", "a"))
	c := newClient(t, Options{Addresses: []string{addressOf(s)}, User: "writer", Password: "w"})
	errs := publish(t, c, message("0", "runs.a", 10), message("1", "runs.a", 5000), message("2", "nowhere", 10),
		message("3", "runs.secret", 10), message("4", "small", 101), message("5", "runs.b", 10))
	for i, want := range []string{"", "larger than the server takes, 4096 bytes", `no stream of JetStream has subject "nowhere"`,
		`may not publish to "runs.secret"`, "by the stream", ""} {
		switch {
		case want == "" && errs[i] != nil:
			t.Errorf("%d: %v", i, errs[i])
		case want != "" && (!errors.Is(errs[i], broker.ErrRefused) || !strings.Contains(errs[i].Error(), want)):
			t.Errorf("%d: %v", i, errs[i])
		}
	}
}

// TestAwayFromTheStart sends nothing, and works once the server is there.
func TestAwayFromTheStart(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	c := newClient(t, Options{Addresses: []string{address}})
	if err := publish(t, c, message("0", "runs.a", 1))[0]; !errors.Is(err, broker.ErrUnsent) {
		t.Fatal(err)
	}
	o := jetStream(t)
	o.Port = l.Addr().(*net.TCPAddr).Port
	withStreams(t, startServer(t, o))
	if err := publish(t, c, message("0", "runs.a", 1))[0]; err != nil {
		t.Fatal(err)
	}
}

// TestAWrongPasswordSendsNothing, and neither does a server without JetStream.
func TestAWrongPasswordSendsNothing(t *testing.T) {
	s := startServer(t, natsserver.Options{Username: "u", Password: "right"})
	c := newClient(t, Options{Addresses: []string{addressOf(s)}, User: "u", Password: "wrong"})
	if err := publish(t, c, message("0", "runs.a", 1))[0]; !errors.Is(err, broker.ErrUnsent) {
		t.Error(err)
	}
	c = newClient(t, Options{Addresses: []string{addressOf(s)}, User: "u", Password: "right"})
	if err := publish(t, c, message("0", "runs.a", 1))[0]; !errors.Is(err, broker.ErrUnsent) ||
		!strings.Contains(err.Error(), "core: true") {
		t.Error(err)
	}
}

// TestTheServerIsEndedUnderLoad again and again: what was acknowledged is in the stream, what is there was
// acknowledged or may be there, and what was not sent is not.
func TestTheServerIsEndedUnderLoad(t *testing.T) {
	o := jetStream(t)
	s := startServer(t, o)
	withStreams(t, s)
	o.Port = s.Addr().(*net.TCPAddr).Port
	c := newClient(t, Options{Addresses: []string{addressOf(s)}})
	ledger := map[string]error{}
	counts := [3]int{} // acknowledged, not sent, may be there
	for round := range 3 {
		ended := make(chan struct{})
		next := s
		for i := range 60 {
			if i == 20 {
				go func() {
					defer close(ended)
					s.Shutdown()
					s.WaitForShutdown()
				}()
			}
			if i == 40 {
				<-ended
				next = startServer(t, o)
			}
			var ms []broker.Message
			for n := range 20 {
				ms = append(ms, message(fmt.Sprint(round, ".", i, ".", n), "runs.a", 10))
			}
			for n, err := range publish(t, c, ms...) {
				ledger[ms[n].ID] = err
				switch {
				case err == nil:
					counts[0]++
				case errors.Is(err, broker.ErrUnsent):
					counts[1]++
				default:
					counts[2]++
				}
			}
		}
		s = next
	}
	have := map[string]bool{}
	for _, id := range stored(t, withStreams(t, s)) {
		if have[id] {
			t.Errorf("%s is there twice", id)
		}
		have[id] = true
	}
	for id, err := range ledger {
		switch {
		case err == nil && !have[id]:
			t.Errorf("%s was acknowledged, and is not there", id)
		case errors.Is(err, broker.ErrRefused):
			t.Errorf("%s: %v", id, err)
		case errors.Is(err, broker.ErrUnsent) && have[id]:
			t.Errorf("%s was not sent, and is there", id)
		}
	}
	if counts[0] == 0 || counts[1] == 0 {
		t.Errorf("%d acknowledged, %d not sent, %d that may be there", counts[0], counts[1], counts[2])
	}
}

// TestCut before and after the acknowledgement: the broker may have the message, and the next attempt leaves
// it there once.
func TestCut(t *testing.T) {
	s := startServer(t, jetStream(t))
	runs := withStreams(t, s)
	l, err := link.Listen(addressOf(s), link.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c := newClient(t, Options{Addresses: []string{l.Address()}})
	if err := publish(t, c, message("first", "runs.a", 1))[0]; err != nil {
		t.Fatal(err)
	}
	for i, way := range []link.Way{link.There, link.Back} {
		id := fmt.Sprint("cut", i)
		l.CutWay(way, link.Broken)
		err := publish(t, c, message(id, "runs.a", 1))[0]
		if err == nil || errors.Is(err, broker.ErrUnsent) || errors.Is(err, broker.ErrRefused) {
			t.Errorf("%s: %v", id, err)
		}
		l.Heal()
		if err := publish(t, c, message(id, "runs.a", 1))[0]; err != nil {
			t.Errorf("%s: %v", id, err)
		}
	}
	if ids := strings.Join(stored(t, runs), " "); ids != "first cut0 cut1" {
		t.Error(ids)
	}
}

// TestSilence ends with the context, which may be because the message is there.
func TestSilence(t *testing.T) {
	s := startServer(t, jetStream(t))
	withStreams(t, s)
	l, err := link.Listen(addressOf(s), link.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c := newClient(t, Options{Addresses: []string{l.Address()}})
	if err := publish(t, c, message("first", "runs.a", 1))[0]; err != nil {
		t.Fatal(err)
	}
	l.CutWay(link.Back, link.Silent)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 2)
	c.Publish(ctx, []broker.Message{message("second", "runs.a", 1)}, func(_ int, err error) { ended <- err })
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) || errors.Is(err, broker.ErrUnsent) {
		t.Error(err)
	}
}

// BenchmarkPublish is beside BenchmarkBare, which has the library's own asynchronous publishing.
func BenchmarkPublish(b *testing.B) {
	s := startServer(b, jetStream(b))
	withStreams(b, s)
	c := newClient(b, Options{Addresses: []string{addressOf(s)}})
	publish(b, c, message("first", "runs.a", 1))
	const batch = 1000
	var took []time.Duration
	b.ResetTimer()
	for n := 0; n < b.N; n += batch {
		ms := make([]broker.Message, min(batch, b.N-n))
		for i := range ms {
			ms[i] = message(strconv.Itoa(n+i), "runs.a", 200)
		}
		begun := time.Now()
		for _, err := range publish(b, c, ms...) {
			if err != nil {
				b.Fatal(err)
			}
		}
		took = append(took, time.Since(begun))
	}
	slices.Sort(took)
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "messages/s")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms/batch")
}

func BenchmarkBare(b *testing.B) {
	s := startServer(b, jetStream(b))
	withStreams(b, s)
	nc, err := nats.Connect(s.ClientURL())
	if err != nil {
		b.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		b.Fatal(err)
	}
	const batch = 1000
	b.ResetTimer()
	for n := 0; n < b.N; n += batch {
		for i := range min(batch, b.N-n) {
			m := message(strconv.Itoa(n+i), "runs.a", 200)
			if _, err := js.PublishMsgAsync(natsMessage(&m)); err != nil {
				b.Fatal(err)
			}
		}
		<-js.PublishAsyncComplete()
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "messages/s")
}

// TestOptions are checked.
func TestOptions(t *testing.T) {
	for want, o := range map[string]Options{
		"addresses: ":        {},
		"addresses[1]: ":     {Addresses: []string{"a:1", "b"}},
		"credentials_file: ": {Addresses: []string{"a:1"}, User: "u", Credentials: "c"},
		"password_file: ":    {Addresses: []string{"a:1"}, Password: "p"},
	} {
		if _, err := New(o); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}
