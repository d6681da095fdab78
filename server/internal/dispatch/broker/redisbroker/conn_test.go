package redisbroker

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/dispatch/broker"
)

// scripted is a server of Redis's protocol that answers as it is told.
type scripted struct {
	net.Listener
	mu     sync.Mutex
	greets func(net.Conn)              // takes a connection instead of its commands; nil: nothing does
	says   func(command string) string // answers a command; "": as Redis does, "-": the connection ends
	open   []net.Conn
	added  int
	work   sync.WaitGroup
}

func script(t *testing.T) *scripted {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &scripted{Listener: l}
	s.work.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s.mu.Lock()
			s.open = append(s.open, c)
			greets := s.greets
			s.mu.Unlock()
			s.work.Go(func() {
				defer c.Close()
				if greets != nil {
					greets(c)
				} else {
					s.serve(c)
				}
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		s.change(nil, nil)
		s.work.Wait()
	})
	return s
}

// change says how connections are taken from now on, and ends those that there are.
func (s *scripted) change(greets func(net.Conn), says func(string) string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.greets, s.says = greets, says
	for _, c := range s.open {
		c.Close()
	}
	s.open = nil
}

// reached says whether there is a connection since the last change.
func (s *scripted) reached() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.open) > 0
}

func (s *scripted) entries() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.added
}

func (s *scripted) serve(c net.Conn) {
	r := bufio.NewReader(c)
	number := func() int {
		line, err := r.ReadString('\n')
		if err != nil {
			return -1
		}
		n, err := strconv.Atoi(strings.TrimSpace(line[1:]))
		if err != nil {
			return -1
		}
		return n
	}
	for {
		words := make([]string, max(number(), 0))
		for i := range words {
			b := make([]byte, number()+2)
			if _, err := io.ReadFull(r, b); err != nil {
				return
			}
			words[i] = string(b[:len(b)-2])
		}
		if len(words) == 0 {
			return
		}
		answer := map[string]string{"HELLO": "%1\r\n+proto\r\n:3", "PING": "+PONG", "XADD": "+1-1",
			"CLUSTER": "-ERR This instance has cluster support disabled", "CONFIG": "%0"}[words[0]]
		s.mu.Lock()
		if words[0] == "XADD" {
			s.added++
		}
		if s.says != nil {
			if said := s.says(words[0]); said != "" {
				answer = said
			}
		}
		s.mu.Unlock()
		switch answer {
		case "":
			answer = "+OK"
		case "-":
			return
		}
		if _, err := io.WriteString(c, answer+"\r\n"); err != nil {
			return
		}
	}
}

// onlyTo answers one command, and the others as Redis does.
func onlyTo(command, answer string) func(string) string {
	return func(c string) string {
		if c == command {
			return answer
		}
		return ""
	}
}

// TestNothingIsSentBeforeTheLogin at a reconnect: neither what the server says then nor its end is an answer to
// an entry.
func TestNothingIsSentBeforeTheLogin(t *testing.T) {
	s := script(t)
	c := newClient(t, Options{Addresses: []string{s.Addr().String()}, Password: "w", Database: 1})
	tell := func(line string) func(net.Conn) {
		return func(c net.Conn) { io.WriteString(c, line) } //nolint:errcheck // the client may have gone
	}
	for name, does := range map[string]struct {
		greets func(net.Conn)
		says   func(string) string
	}{
		"crowded":   {greets: tell("-ERR max number of clients reached\r\n")},
		"protected": {greets: tell("-DENIED Redis is running in protected mode\r\n")},
		"proxy":     {greets: tell("-ERR upstream failure\r\n")},
		"half":      {greets: tell("+O")},
		"ends":      {greets: func(net.Conn) {}},
		"password":  {says: onlyTo("AUTH", "-ERR invalid password")},
		"database":  {says: onlyTo("SELECT", "-ERR DB index is out of range")},
		"select":    {says: onlyTo("SELECT", "-NOPERM this user has no permissions to run the 'select' command")},
		"late end":  {says: onlyTo("HELLO", "-")},
		"late":      {says: onlyTo("HELLO", "-DENIED by a proxy")},
	} {
		t.Run(name, func(t *testing.T) {
			s.change(nil, nil)
			for !t.Failed() {
				if err := publish(t, c, message("0", "runs", 1))[0]; err == nil {
					break
				} else if errors.Is(err, broker.ErrRefused) {
					t.Fatal(err)
				}
			}
			before := s.entries()
			s.change(does.greets, does.says)
			for { // what is written to the connection before its end is known may be there
				err := publish(t, c, message("1", "runs", 1))[0]
				if err == nil || errors.Is(err, broker.ErrRefused) {
					t.Fatal(err)
				}
				if s.reached() {
					if !errors.Is(err, broker.ErrUnsent) {
						t.Error(err)
					}
					break
				}
			}
			if n := s.entries(); n != before {
				t.Errorf("%d entries", n-before)
			}
		})
	}
}

// TestASilentServerGetsNothing within the time that there is.
func TestASilentServerGetsNothing(t *testing.T) {
	s := script(t)
	ctx, cancel := context.WithCancel(t.Context())
	s.change(func(c net.Conn) {
		cancel()
		io.Copy(io.Discard, c) //nolint:errcheck // until the client ends it
	}, nil)
	c := newClient(t, Options{Addresses: []string{s.Addr().String()}})
	c.Publish(ctx, []broker.Message{message("0", "runs", 1)}, func(_ int, err error) {
		if !errors.Is(err, broker.ErrUnsent) {
			t.Error(err)
		}
	})
}

// TestAnEndAfterAnEntry leaves open whether it is there.
func TestAnEndAfterAnEntry(t *testing.T) {
	s := script(t)
	s.change(nil, onlyTo("XADD", "-"))
	c := newClient(t, Options{Addresses: []string{s.Addr().String()}})
	for i := range 3 {
		before := s.entries()
		err := publish(t, c, message("0", "runs", 1))[0]
		if err == nil || errors.Is(err, broker.ErrRefused) {
			t.Error(err)
		}
		if n := s.entries() - before; i == 0 && n == 0 || n > 0 && errors.Is(err, broker.ErrUnsent) {
			t.Errorf("%d entries: %v", n, err)
		}
	}
}

// TestAnswers that are no refusals of an entry, and some that are.
func TestAnswers(t *testing.T) {
	s := script(t)
	c := newClient(t, Options{Addresses: []string{s.Addr().String()}})
	for answer, want := range map[string]error{
		"ERR upstream failure":    nil,
		"WHATEVER":                nil,
		"OOM command not allowed": broker.ErrUnsent,
		"NOPERM this user has no permissions to run the 'hello' command":   broker.ErrUnsent,
		"NOPERM this user has no permissions to run the 'xadd' command":    broker.ErrRefused,
		"NOPERM No permissions to access a key":                            broker.ErrRefused,
		"WRONGTYPE Operation against a key":                                broker.ErrRefused,
		"ERR string exceeds maximum allowed size (proto-max-bulk-len)":     broker.ErrRefused,
		"ERR unknown command 'XADD', with args beginning with: 'runs'":     broker.ErrUnsent,
		"ERR The stream has exhausted the last possible ID, unable to add": broker.ErrRefused,
	} {
		s.mu.Lock()
		s.says = onlyTo("XADD", "-"+answer)
		s.mu.Unlock()
		err := publish(t, c, message("0", "runs", 1))[0]
		if err == nil || errors.Is(err, broker.ErrUnsent) != errors.Is(want, broker.ErrUnsent) ||
			errors.Is(err, broker.ErrRefused) != errors.Is(want, broker.ErrRefused) {
			t.Errorf("%s: %v", answer, err)
		}
	}
}

// TestNothingIsSentAfterTheEnd of the context.
func TestNothingIsSentAfterTheEnd(t *testing.T) {
	s := script(t)
	c := newClient(t, Options{Addresses: []string{s.Addr().String()}})
	if err := publish(t, c, message("0", "runs", 1))[0]; err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c.Publish(ctx, []broker.Message{message("1", "runs", 1)}, func(_ int, err error) {
		if !errors.Is(err, broker.ErrUnsent) {
			t.Error(err)
		}
	})
	if n := s.entries(); n != 1 {
		t.Errorf("%d entries", n)
	}
}

// TestTargetsOfOtherKinds are refused.
func TestTargetsOfOtherKinds(t *testing.T) {
	s := script(t)
	c := newClient(t, Options{Addresses: []string{s.Addr().String()}})
	errs := publish(t, c, broker.Message{}, message("0", "runs", 1),
		broker.Message{To: carillon.Target{NATS: &carillon.NATSTarget{Server: "s", Subject: "a"}}})
	if errs[1] != nil || !errors.Is(errs[0], broker.ErrRefused) || !errors.Is(errs[2], broker.ErrRefused) {
		t.Error(errs)
	}
}
