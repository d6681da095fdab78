package redisbroker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/dispatch/broker"
	"github.com/carillonhq/carillon/server/internal/testing/link"
	"github.com/carillonhq/carillon/server/internal/testing/realserver"
)

const patience = 30 * time.Second

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

// message is a message to a stream.
func message(id, stream string, size int) broker.Message {
	return broker.Message{To: carillon.Target{Redis: &carillon.RedisTarget{Server: "s", Stream: stream}}, ID: id,
		Headers: []broker.Header{{Name: "ce-id", Value: id}}, ContentType: "text/plain", Data: make([]byte, size)}
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

// asker is Redis as another program sees it.
func asker(t testing.TB, r *realserver.Redis) rueidis.Client {
	t.Helper()
	c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{r.Address()}, DisableCache: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func ask(t testing.TB, c rueidis.Client, command ...string) rueidis.RedisResult {
	t.Helper()
	r := c.Do(t.Context(), c.B().Arbitrary(command...).Build())
	if err := r.Error(); err != nil {
		t.Fatalf("%v: %v", command, err)
	}
	return r
}

// stored are the ids of a stream's messages, in order.
func stored(t testing.TB, c rueidis.Client, stream string) (ids []string) {
	t.Helper()
	entries, err := ask(t, c, "XRANGE", stream, "-", "+").AsXRange()
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		ids = append(ids, e.FieldValues["ce-id"])
	}
	return ids
}

func TestOrderIsKept(t *testing.T) {
	r := realserver.StartRedis(t)
	c := newClient(t, Options{Addresses: []string{r.Address()}})
	var want []string
	for i := range 20 {
		var ms []broker.Message
		for n := range 20 {
			ms = append(ms, message(fmt.Sprint(i, ".", n), "runs", 10))
			want = append(want, ms[n].ID)
		}
		for _, err := range publish(t, c, ms...) {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	a := asker(t, r)
	if got := stored(t, a, "runs"); !slices.Equal(got, want) {
		t.Errorf("%d entries, not %d, or not in order", len(got), len(want))
	}
	entries, err := ask(t, a, "XRANGE", "runs", "-", "+", "COUNT", "1").AsXRange()
	if err != nil {
		t.Fatal(err)
	}
	if f := entries[0].FieldValues; f["content-type"] != "text/plain" || len(f["data"]) != 10 || len(f) != 3 {
		t.Error(f)
	}
}

// TestAStreamIsTrimmed to about as many entries as are to be kept.
func TestAStreamIsTrimmed(t *testing.T) {
	r := realserver.StartRedis(t, "stream-node-max-entries=10")
	c := newClient(t, Options{Addresses: []string{r.Address()}, MaxLength: 50})
	for i := range 10 {
		var ms []broker.Message
		for n := range 20 {
			ms = append(ms, message(fmt.Sprint(i, ".", n), "runs", 1))
		}
		publish(t, c, ms...)
	}
	if n := len(stored(t, asker(t, r), "runs")); n < 50 || n > 60 {
		t.Errorf("%d entries", n)
	}
}

// TestRefusals are of the messages concerned, and of no others of their batch.
func TestRefusals(t *testing.T) {
	r := realserver.StartRedis(t, "proto-max-bulk-len=1048576")
	a := asker(t, r)
	ask(t, a, "SET", "text", "x")
	ask(t, a, "ACL", "SETUSER", "writer", "on", ">w", "~runs", "~text", "+xadd", "+config|get", "+@connection")
	c := newClient(t, Options{Addresses: []string{r.Address()}, User: "writer", Password: "w"})
	errs := publish(t, c, message("0", "runs", 1), message("1", "text", 1), message("2", "other", 1),
		message("3", "runs", 1))
	for i, want := range []string{"", `"text" is no stream`, `may not add to "other"`, ""} {
		switch {
		case want == "" && errs[i] != nil:
			t.Errorf("%d: %v", i, errs[i])
		case want != "" && (!errors.Is(errs[i], broker.ErrRefused) || !strings.Contains(errs[i].Error(), want)):
			t.Errorf("%d: %v", i, errs[i])
		}
	}
	if ids := strings.Join(stored(t, a, "runs"), " "); ids != "0 3" {
		t.Error(ids)
	}
	if err := publish(t, c, message("4", "runs", 2<<20))[0]; !errors.Is(err, broker.ErrRefused) {
		t.Errorf("too large: %v", err)
	}
	wrong := newClient(t, Options{Addresses: []string{r.Address()}, User: "writer", Password: "wrong"})
	if err := publish(t, wrong, message("5", "runs", 1))[0]; !errors.Is(err, broker.ErrUnsent) {
		t.Errorf("wrong password: %v", err)
	}
	ask(t, a, "CONFIG", "SET", "maxmemory", "1")
	if err := publish(t, c, message("6", "runs", 1))[0]; !errors.Is(err, broker.ErrUnsent) {
		t.Errorf("out of memory: %v", err)
	}
}

// TestRedisIsKilledUnderLoad again and again: what was acknowledged is in the stream, and what is there was
// acknowledged or may be there.
func TestRedisIsKilledUnderLoad(t *testing.T) {
	r := realserver.StartRedis(t)
	c := newClient(t, Options{Addresses: []string{r.Address()}})
	ledger := map[string]error{}
	acknowledged, unsent := 0, 0
	for round := range 2 {
		crashed := make(chan struct{})
		for i := range 60 {
			switch i {
			case 20:
				go func() {
					defer close(crashed)
					r.Crash(t)
				}()
			case 40:
				<-crashed
				if err := publish(t, c, message("away", "runs", 1))[0]; err == nil {
					t.Error("acknowledged by a server that is away")
				}
				r.Up(t)
			}
			var ms []broker.Message
			for n := range 20 {
				ms = append(ms, message(fmt.Sprint(round, ".", i, ".", n), "runs", 10))
			}
			for n, err := range publish(t, c, ms...) {
				ledger[ms[n].ID] = err
				switch {
				case err == nil:
					acknowledged++
				case errors.Is(err, broker.ErrUnsent):
					unsent++
				}
			}
		}
	}
	have := map[string]bool{}
	for _, id := range stored(t, asker(t, r), "runs") {
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
	if acknowledged == 0 || unsent == 0 {
		t.Errorf("%d acknowledged, %d not sent", acknowledged, unsent)
	}
}

// TestCut before and after the answer: the stream may have the entry, unless there was no connection for it.
func TestCut(t *testing.T) {
	r := realserver.StartRedis(t)
	l, err := link.Listen(r.Address(), link.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, a := newClient(t, Options{Addresses: []string{l.Address()}}), asker(t, r)
	if err := publish(t, c, message("first", "runs", 1))[0]; err != nil {
		t.Fatal(err)
	}
	for i, way := range []link.Way{link.There, link.Back} {
		id := fmt.Sprint("cut", i)
		l.CutWay(way, link.Broken)
		err := publish(t, c, message(id, "runs", 1))[0]
		if err == nil || errors.Is(err, broker.ErrRefused) {
			t.Errorf("%s: %v", id, err)
		}
		if errors.Is(err, broker.ErrUnsent) && slices.Contains(stored(t, a, "runs"), id) {
			t.Errorf("%s is there: %v", id, err)
		}
		l.Heal()
		if err := publish(t, c, message(id, "runs", 1))[0]; err != nil {
			t.Errorf("%s again: %v", id, err)
		}
	}
	// the one whose answer was cut off is there twice, unless the connection had ended before
	ids := stored(t, a, "runs")
	if len(ids) == 4 && ids[3] == "cut1" {
		ids = ids[:3]
	}
	if !slices.Equal(ids, []string{"first", "cut0", "cut1"}) {
		t.Error(ids)
	}
}

// TestSilence ends with the context: the entry is there, and its answer is not.
func TestSilence(t *testing.T) {
	r := realserver.StartRedis(t)
	l, err := link.Listen(r.Address(), link.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, a := newClient(t, Options{Addresses: []string{l.Address()}}), asker(t, r)
	// A connection that is made during the silence does not get beyond its handshake. Each publish draws one of
	// two: after so many both are there.
	for range 50 {
		if err := publish(t, c, message("early", "others", 1))[0]; err != nil {
			t.Fatal(err)
		}
	}
	if err := publish(t, c, message("first", "runs", 1))[0]; err != nil {
		t.Fatal(err)
	}
	l.CutWay(link.Back, link.Silent)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go c.Publish(ctx, []broker.Message{message("second", "runs", 1)}, func(_ int, err error) { ended <- err })
	for limit := time.Now().Add(time.Minute); len(stored(t, a, "runs")) < 2; {
		if time.Now().After(limit) {
			t.Fatal("the second entry is not in the stream")
		}
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) || errors.Is(err, broker.ErrUnsent) {
		t.Error(err)
	}
	l.Heal()
	if err := publish(t, c, message("third", "runs", 1))[0]; err != nil {
		t.Error(err)
	}
	if ids := strings.Join(stored(t, a, "runs"), " "); ids != "first second third" {
		t.Error(ids)
	}
}

// TestOptions are checked.
func TestOptions(t *testing.T) {
	for want, o := range map[string]Options{
		"addresses: ":     {},
		"addresses[1]: ":  {Addresses: []string{"a:1", "b"}},
		"database: ":      {Addresses: []string{"a:1"}, Database: -1},
		"max_length: ":    {Addresses: []string{"a:1"}, MaxLength: -1},
		"password_file: ": {Addresses: []string{"a:1"}, User: "u"},
	} {
		if _, err := New(o); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// BenchmarkPublish is beside BenchmarkBare, which has the bare library.
func BenchmarkPublish(b *testing.B) {
	r := realserver.StartRedis(b)
	c := newClient(b, Options{Addresses: []string{r.Address()}})
	publish(b, c, message("first", "runs", 1))
	const batch = 1000
	var took []time.Duration
	b.ResetTimer()
	for n := 0; n < b.N; n += batch {
		ms := make([]broker.Message, min(batch, b.N-n))
		for i := range ms {
			ms[i] = message(strconv.Itoa(n+i), "runs", 200)
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
	c := asker(b, realserver.StartRedis(b))
	const batch = 1000
	b.ResetTimer()
	for n := 0; n < b.N; n += batch {
		adds := make(rueidis.Commands, min(batch, b.N-n))
		for i := range adds {
			adds[i] = c.B().Arbitrary("XADD").Keys("runs").Args("*", "ce-id", strconv.Itoa(n+i), "content-type", "text/plain",
				"data", string(make([]byte, 200))).Build()
		}
		for _, r := range c.DoMulti(b.Context(), adds...) {
			if err := r.Error(); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "messages/s")
}
