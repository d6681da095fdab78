package redisbroker

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/carillonhq/carillon/server/internal/dispatch/broker"
	"github.com/carillonhq/carillon/server/internal/testing/realserver"
)

// newSource makes a source of the stream "jobs".
func newSource(t *testing.T, address string) *Source {
	t.Helper()
	s, err := NewSource(Options{Addresses: []string{address}}, broker.Subscription{Topic: "jobs", Group: "g",
		InFlight: 1000})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() }) // it may be closed already
	return s
}

// receive receives as many entries.
func receive(t *testing.T, s *Source, n int) (all []*broker.Delivery) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for len(all) < n {
		got, err := s.Receive(ctx)
		if err != nil {
			t.Fatalf("%d entries of %d: %v", len(all), n, err)
		}
		all = append(all, got...)
	}
	return all
}

// filled starts a server with a stream of n entries, and a group; last is the id of the last entry.
func filled(t *testing.T, n int) (r *realserver.Redis, a rueidis.Client, last string) {
	t.Helper()
	r = realserver.StartRedis(t, "save=")
	a = asker(t, r)
	ask(t, a, "XGROUP", "CREATE", "jobs", "g", "0", "MKSTREAM")
	for i := range n {
		last = strconv.Itoa(i+1) + "-0"
		ask(t, a, "XADD", "jobs", last, "data", "x")
	}
	return r, a, last
}

// pending is how many entries of the group are taken and not acknowledged.
func pending(t *testing.T, a rueidis.Client) int64 {
	t.Helper()
	all, err := ask(t, a, "XPENDING", "jobs", "g").ToArray()
	if err != nil || len(all) == 0 {
		t.Fatalf("XPENDING: %v", err)
	}
	n, err := all[0].AsInt64()
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestWhatIsLeftAloneBehindManyIsTakenOver: Redis looks at some of the pending entries at a time.
func TestWhatIsLeftAloneBehindManyIsTakenOver(t *testing.T) {
	t.Parallel()
	const most = 20 * readMost // twice of what it looks at
	r, a, last := filled(t, most)
	ask(t, a, "XREADGROUP", "GROUP", "g", "other", "COUNT", strconv.Itoa(most), "STREAMS", "jobs", ">")
	ask(t, a, "XCLAIM", "jobs", "g", "other", "0", last, "IDLE", millis(leftAlone), "JUSTID")
	if got := receive(t, newSource(t, r.Address()), 1); len(got) != 1 || got[0].At != "jobs@"+last {
		t.Errorf("%d entries are taken over, the first is %s", len(got), got[0].At)
	}
}

// TestReleasesAreTogether: many that are released cost few calls, and are taken over at once.
func TestReleasesAreTogether(t *testing.T) {
	t.Parallel()
	const most = 600
	r, a, _ := filled(t, most)
	s := newSource(t, r.Address())
	for _, d := range receive(t, s, most) {
		d.Release()
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	text, err := ask(t, a, "INFO", "commandstats").ToString()
	if err != nil {
		t.Fatal(err)
	}
	_, of, _ := bytes.Cut([]byte(text), []byte("cmdstat_xclaim:calls="))
	calls := 0
	if _, err := fmt.Sscanf(string(of), "%d", &calls); err != nil || calls > most/2 {
		t.Errorf("%d releases were %d calls: %v", most, calls, err)
	}
	receive(t, newSource(t, r.Address()), most)
}

// TestAConsumerThatGotAnEntryStays: what a read that was given up still gets, is not lost with the consumer.
func TestAConsumerThatGotAnEntryStays(t *testing.T) {
	t.Parallel()
	r, a, _ := filled(t, 1)
	var s *Source
	late := sync.OnceFunc(func() {
		for _, args := range [][]string{{"XADD", "jobs", "2-0", "data", "x"},
			{"XREADGROUP", "GROUP", "g", s.name, "STREAMS", "jobs", ">"}} {
			if err := a.Do(t.Context(), a.B().Arbitrary(args...).Build()).Error(); err != nil {
				t.Errorf("%v: %v", args, err)
			}
		}
	})
	s = newSource(t, before(t, r.Address(), "DELCONSUMER", late))
	for _, d := range receive(t, s, 1) {
		d.Done()
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	late() // it was already
	if got := pending(t, a); got != 1 {
		t.Errorf("%d entries are pending: what came late was lost", got)
	}
}

// TestAConsumerLeaves the group, if it has no entry.
func TestAConsumerLeaves(t *testing.T) {
	t.Parallel()
	r, a, _ := filled(t, 3)
	s := newSource(t, r.Address())
	for _, d := range receive(t, s, 3) {
		d.Done()
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	all, err := ask(t, a, "XINFO", "CONSUMERS", "jobs", "g").ToArray()
	if err != nil || len(all) != 0 || pending(t, a) != 0 {
		t.Errorf("%d consumers stay: %v", len(all), err)
	}
}

// TestAcknowledgementsThatAreRefused are told by Receive, which gives no more entries until they are taken.
func TestAcknowledgementsThatAreRefused(t *testing.T) {
	t.Parallel()
	r, a, _ := filled(t, 2)
	ask(t, a, "ACL", "SETUSER", "default", "-xack")
	s := newSource(t, r.Address())
	for _, d := range receive(t, s, 2) {
		d.Done()
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var err error
	for err == nil {
		_, err = s.Receive(ctx)
	}
	if ctx.Err() != nil || !strings.Contains(err.Error(), "acknowledgements are not taken: ") ||
		!strings.Contains(err.Error(), "xack") {
		t.Fatalf("what is told of acknowledgements that are refused: %v", err)
	}
	ask(t, a, "ACL", "SETUSER", "default", "+xack")
	ask(t, a, "XADD", "jobs", "3-0", "data", "x")
	if got := receive(t, s, 1); got[0].At != "jobs@3-0" {
		t.Errorf("%s comes again", got[0].At)
	}
	if n := pending(t, a); n != 1 {
		t.Errorf("%d entries are pending, not the last one alone", n)
	}
}

// before leads to a server; it calls f before it passes on what has a word in it.
func before(t *testing.T, server, word string, f func()) (address string) {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var open sync.WaitGroup
	t.Cleanup(func() {
		_ = l.Close()
		open.Wait()
	})
	open.Go(func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			far, err := (&net.Dialer{Timeout: time.Second}).Dial("tcp", server)
			if err != nil {
				_ = near.Close()
				continue
			}
			open.Go(func() {
				_, _ = io.Copy(near, far)
				_ = near.Close()
			})
			open.Go(func() {
				_, _ = io.Copy(hook{far, word, f}, near)
				_ = far.Close()
			})
		}
	})
	return l.Addr().String()
}

// hook calls f before it writes what has a word in it.
type hook struct {
	to   io.Writer
	word string
	f    func()
}

func (h hook) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte(h.word)) {
		h.f()
	}
	return h.to.Write(b)
}
