package natsbroker

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/dispatch/broker"
	"github.com/carillonhq/carillon/server/internal/testing/link"
)

// TestCore is without JetStream: what the server has is acknowledged, what may not be published is refused.
func TestCore(t *testing.T) {
	writer := &natsserver.User{Username: "writer", Password: "w", Permissions: &natsserver.Permissions{
		Publish: &natsserver.SubjectPermission{Allow: []string{"open"}}}}
	s := startServer(t, natsserver.Options{Users: []*natsserver.User{{Username: "admin", Password: "a"}, writer}})
	nc, err := nats.Connect(s.ClientURL(), nats.UserInfo("admin", "a"))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	sub, err := nc.SubscribeSync("open")
	if err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	c := newClient(t, Options{Addresses: []string{addressOf(s)}, User: "writer", Password: "w", Core: true})
	for range 50 {
		errs := publish(t, c, message("0", "open", 10), message("1", "closed", 10), message("2", `a"b`, 10),
			message("3", `a\b`, 10), message("4", "ä\u00a0", 10))
		if errs[0] != nil {
			t.Fatal(errs)
		}
		for _, err := range errs[1:] {
			if !errors.Is(err, broker.ErrRefused) {
				t.Fatal(errs)
			}
		}
		m, err := sub.NextMsg(patience)
		if err != nil || m.Header.Get(nats.MsgIdHdr) != "0" {
			t.Fatal(m, err)
		}
	}
	c.work.Wait()
	if n := len(c.conn.watches); n != 0 {
		t.Errorf("%d subjects are kept", n)
	}
}

// TestCutOfCore before and after the server has a message: it may be there either way.
func TestCutOfCore(t *testing.T) {
	s := startServer(t, natsserver.Options{})
	l, err := link.Listen(addressOf(s), link.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c := newClient(t, Options{Addresses: []string{l.Address()}, Core: true})
	for _, way := range []link.Way{link.There, link.Back} {
		if err := publish(t, c, message("before", "a", 1))[0]; err != nil {
			t.Fatal(err)
		}
		l.CutWay(way, link.Broken)
		err := publish(t, c, message("cut", "a", 1))[0]
		if err == nil || errors.Is(err, broker.ErrUnsent) || errors.Is(err, broker.ErrRefused) {
			t.Error(err)
		}
		l.Heal()
	}
}

// TestDeniedSubject is read as the server writes it.
func TestDeniedSubject(t *testing.T) {
	for text, want := range map[string]string{
		`nats: permissions violation: Permissions Violation for Publish to "a.b"`:     "a.b",
		`nats: permissions violation: Permissions Violation for Publish to "a\"b\\c"`: `a"b\c`,
		`nats: permissions violation: Permissions Violation for Publish to "cut`:      "",
		`nats: permissions violation: Permissions Violation for Publish to `:          "",
	} {
		if got, denied := deniedSubject(text); got != want || !denied {
			t.Errorf("%s: %q %t", text, got, denied)
		}
	}
	if _, denied := deniedSubject("nats: maximum subscriptions exceeded"); denied {
		t.Error("another complaint is taken for a denial")
	}
}

// TestNothingIsSentAfterTheEnd of the context.
func TestNothingIsSentAfterTheEnd(t *testing.T) {
	s := startServer(t, jetStream(t))
	runs := withStreams(t, s)
	c := newClient(t, Options{Addresses: []string{addressOf(s)}})
	if err := publish(t, c, message("0", "runs.a", 1))[0]; err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c.Publish(ctx, []broker.Message{message("1", "runs.a", 1)}, func(_ int, err error) {
		if !errors.Is(err, broker.ErrUnsent) {
			t.Error(err)
		}
	})
	if err := publish(t, c, message("2", "runs.a", 1))[0]; err != nil {
		t.Fatal(err)
	}
	if ids := strings.Join(stored(t, runs), " "); ids != "0 2" {
		t.Error(ids)
	}
}

// TestTargetsOfOtherKinds are refused.
func TestTargetsOfOtherKinds(t *testing.T) {
	s := startServer(t, jetStream(t))
	withStreams(t, s)
	other := broker.Message{To: carillon.Target{Redis: &carillon.RedisTarget{Server: "s", Stream: "a"}}}
	for _, core := range []bool{false, true} {
		c := newClient(t, Options{Addresses: []string{addressOf(s)}, Core: core})
		errs := publish(t, c, broker.Message{}, message("0", "runs.a", 1), other)
		if errs[1] != nil || !errors.Is(errs[0], broker.ErrRefused) || !errors.Is(errs[2], broker.ErrRefused) {
			t.Error(core, errs)
		}
	}
}

// TestCloseWaitsForAllConnections also for one that was replaced.
func TestCloseWaitsForAllConnections(t *testing.T) {
	s := startServer(t, jetStream(t))
	withStreams(t, s)
	l, err := link.Listen(addressOf(s), link.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c := newClient(t, Options{Addresses: []string{l.Address()}})
	if err := publish(t, c, message("0", "runs.a", 1))[0]; err != nil {
		t.Fatal(err)
	}
	l.CutWay(link.Back, link.Silent)
	failed, release := make(chan struct{}), make(chan struct{})
	var ended atomic.Bool
	c.Publish(t.Context(), []broker.Message{message("1", "runs.a", 1)}, func(int, error) {
		close(failed)
		<-release
		ended.Store(true)
	})
	l.Cut(link.Broken)
	<-failed
	l.Heal()
	if err := publish(t, c, message("2", "runs.a", 1))[0]; err != nil {
		t.Fatal(err)
	}
	go func() {
		<-c.stop.Done()
		for range 1000 {
			runtime.Gosched() // Close has time to be wrong
		}
		close(release)
	}()
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if !ended.Load() {
		t.Error("it is closed, and a message has not ended")
	}
}

// TestListenEnds with the context or the connection, if a complaint is not heard.
func TestListenEnds(t *testing.T) {
	writer := &natsserver.User{Username: "w", Password: "w", Permissions: &natsserver.Permissions{
		Publish: &natsserver.SubjectPermission{Allow: []string{"open"}}}}
	s := startServer(t, natsserver.Options{Users: []*natsserver.User{writer}})
	c := newClient(t, Options{Addresses: []string{addressOf(s)}, User: "w", Password: "w", Core: true})
	if err := publish(t, c, message("0", "closed", 1))[0]; !errors.Is(err, broker.ErrRefused) {
		t.Fatal(err)
	}
	n := c.conn
	n.mu.Lock()
	n.heard = nil
	n.mu.Unlock()
	listened := make(chan error)
	for range 100 {
		ctx, cancel := context.WithCancel(t.Context())
		go func() { listened <- n.listen(ctx) }()
		cancel()
		if err := <-listened; !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
	go func() { listened <- n.listen(t.Context()) }()
	n.nc.Close()
	if err := <-listened; err == nil || t.Context().Err() != nil {
		t.Error(err)
	}
}
