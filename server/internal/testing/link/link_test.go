package link_test

import (
	"errors"
	"io"
	"net"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/carillonhq/carillon/server/internal/testing/link"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// echo answers what it hears until the test ends.
func echo(t *testing.T) (address string) {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				_, _ = io.Copy(c, c) // a reset ends it too
				_ = c.Close()        // it may be gone
			})
		}
	})
	t.Cleanup(func() {
		must(t, l.Close())
		all.Wait()
	})
	return l.Addr().String()
}

func listen(t *testing.T, o link.Options) *link.Link {
	t.Helper()
	target := echo(t)
	k, err := link.Listen(target, o)
	must(t, err)
	t.Cleanup(func() { must(t, k.Close()) })
	return k
}

func dial(t *testing.T, k *link.Link) net.Conn {
	t.Helper()
	c, err := new(net.Dialer).DialContext(t.Context(), "tcp", k.Address())
	must(t, err)
	t.Cleanup(func() { _ = c.Close() }) // some are closed already
	return c
}

func say(t *testing.T, c net.Conn, text string) {
	t.Helper()
	_, err := io.WriteString(c, text)
	must(t, err)
}

func hear(t *testing.T, c net.Conn, text string) {
	t.Helper()
	got := make([]byte, len(text))
	_, err := io.ReadFull(c, got)
	must(t, err)
	if string(got) != text {
		t.Errorf("heard %q, want %q", got, text)
	}
}

// nothing fails if anything arrives for a while: the network's time is real.
func nothing(t *testing.T, c net.Conn) {
	t.Helper()
	must(t, c.SetReadDeadline(time.Now().Add(50*time.Millisecond)))
	n, err := c.Read(make([]byte, 1))
	if e, ok := errors.AsType[net.Error](err); n > 0 || !ok || !e.Timeout() {
		t.Errorf("heard %d bytes, %v; want silence", n, err)
	}
	must(t, c.SetReadDeadline(time.Time{}))
}

func gone(t *testing.T, c net.Conn) {
	t.Helper()
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("read: %v, want a reset", err)
	}
}

// refused fails if a new connection lives.
func refused(t *testing.T, k *link.Link) {
	t.Helper()
	c, err := new(net.Dialer).DialContext(t.Context(), "tcp", k.Address())
	if err != nil {
		return
	}
	gone(t, c)
	must(t, c.Close())
}

// What is sent into a silent link arrives when it heals, on connections that were there and on those that
// came meanwhile.
func TestSilent(t *testing.T) {
	k := listen(t, link.Options{})
	c := dial(t, k)
	say(t, c, "one")
	hear(t, c, "one")
	k.Cut(link.Silent)
	say(t, c, "two")
	late := dial(t, k)
	say(t, late, "three")
	nothing(t, c)
	nothing(t, late)
	k.Heal()
	hear(t, c, "two")
	hear(t, late, "three")
}

// A broken link resets what is there and what comes; a healed one takes new connections.
func TestBroken(t *testing.T) {
	k := listen(t, link.Options{})
	c := dial(t, k)
	say(t, c, "one")
	hear(t, c, "one")
	k.Cut(link.Broken)
	gone(t, c)
	refused(t, k)
	k.Heal()
	c = dial(t, k)
	say(t, c, "two")
	hear(t, c, "two")
}

// A silent link that is broken then resets what waited.
func TestSilentThenBroken(t *testing.T) {
	k := listen(t, link.Options{})
	c := dial(t, k)
	say(t, c, "one")
	hear(t, c, "one")
	k.Cut(link.Silent)
	say(t, c, "two")
	k.Cut(link.Broken)
	gone(t, c)
}

// One direction may be cut: what is said arrives, and the echo waits, or ends the connection.
func TestCutWay(t *testing.T) {
	k := listen(t, link.Options{})
	c := dial(t, k)
	say(t, c, "one")
	hear(t, c, "one")
	k.CutWay(link.Back, link.Silent)
	say(t, c, "two")
	nothing(t, c)
	k.Heal()
	hear(t, c, "two")
	k.CutWay(link.There, link.Silent)
	say(t, c, "three")
	nothing(t, c)
	k.Heal()
	hear(t, c, "three")
	k.CutWay(link.Back, link.Broken)
	nothing(t, c) // until the target says something
	say(t, c, "four")
	gone(t, c)
}

// Only who has the name is cut off.
func TestCutFrom(t *testing.T) {
	names := make(chan string, 2)
	k := listen(t, link.Options{From: func(net.Conn) string { return <-names }})
	names <- "a"
	a := dial(t, k)
	say(t, a, "one")
	hear(t, a, "one")
	names <- "b"
	b := dial(t, k)
	k.CutFrom("a", link.Silent)
	say(t, a, "two")
	say(t, b, "three")
	hear(t, b, "three")
	nothing(t, a)
	k.CutFrom("a", link.None)
	hear(t, a, "two")
}

// A delay holds for each direction, and keeps the order.
func TestDelay(t *testing.T) {
	const each = 20 * time.Millisecond
	k := listen(t, link.Options{})
	c := dial(t, k)
	say(t, c, "first")
	hear(t, c, "first")
	k.Delay(each)
	begin := time.Now()
	say(t, c, "second")
	say(t, c, "third")
	hear(t, c, "secondthird")
	if took := time.Since(begin); took < 2*each {
		t.Errorf("there and back took %v, less than twice %v", took, each)
	}
}

// The end of one direction is passed on, after all that came before it.
func TestHalfClosed(t *testing.T) {
	k := listen(t, link.Options{})
	c := dial(t, k)
	big := make([]byte, 3<<20)
	go func() {
		_, _ = c.Write(big)               // the count below tells
		_ = c.(*net.TCPConn).CloseWrite() // same
	}()
	got, err := io.ReadAll(c)
	must(t, err)
	if len(got) != len(big) {
		t.Errorf("%d bytes of %d", len(got), len(big))
	}
}

// Nobody listens at the target: a connection ends.
func TestNoTarget(t *testing.T) {
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	must(t, l.Close())
	k, err := link.Listen(l.Addr().String(), link.Options{})
	must(t, err)
	refused(t, k)
	must(t, k.Close())
}

// A link that leads elsewhere resets the connections there are, and makes new ones to the new place.
func TestRedirect(t *testing.T) {
	k := listen(t, link.Options{})
	c := dial(t, k)
	say(t, c, "one")
	hear(t, c, "one")
	other, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	k.Redirect(other.Addr().String())
	gone(t, c)
	c = dial(t, k)
	far, err := other.Accept()
	must(t, err)
	say(t, far, "two")
	hear(t, c, "two")
	must(t, far.Close())
	must(t, other.Close())
}
