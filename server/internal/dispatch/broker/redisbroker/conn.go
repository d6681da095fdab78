package redisbroker

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// dialError is that of a connection that was not made, or on which no entry was written.
type dialError struct{ error }

func (e *dialError) Unwrap() error { return e.error }

// dial dials until the client is closed, and logs in. The library does that, too, but gives an error of it as
// the answer to a command.
func (c *Client) dial(ctx context.Context, address string, d *net.Dialer,
	secure *tls.Config) (net.Conn, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.stop, cancel)()
	near, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, &dialError{err}
	}
	if secure != nil {
		if near, err = secured(ctx, near, address, secure); err != nil {
			return nil, &dialError{fmt.Errorf("TLS: %w", err)}
		}
	}
	if err := c.greet(ctx, near); err != nil {
		return nil, &dialError{errors.Join(err, near.Close())}
	}
	return &conn{Conn: near}, nil
}

// secured begins TLS on a connection, and closes it if that fails.
func secured(ctx context.Context, near net.Conn, address string, settings *tls.Config) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	if settings.ServerName == "" {
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			return nil, errors.Join(err, near.Close())
		}
		settings = settings.Clone()
		settings.ServerName = host
	}
	s := tls.Client(near, settings)
	if err := s.HandshakeContext(ctx); err != nil {
		return nil, errors.Join(err, near.Close())
	}
	return s, nil
}

// greet logs in and selects the database.
func (c *Client) greet(ctx context.Context, near net.Conn) error {
	if err := near.SetDeadline(time.Now().Add(dialTimeout)); err != nil {
		return err
	}
	leave := context.AfterFunc(ctx, func() { near.SetDeadline(time.Unix(1, 0)) }) //nolint:errcheck // the read fails
	err := c.logIn(&greeting{near, bufio.NewReader(near)})
	if !leave() {
		return errors.Join(ctx.Err(), err)
	}
	if err != nil {
		return err
	}
	return near.SetDeadline(time.Time{})
}

func (c *Client) logIn(g *greeting) error {
	if c.option.Password != "" {
		user := c.option.Username
		if user == "" {
			user = "default"
		}
		answer, err := g.ask("AUTH", user, c.option.Password)
		if err == nil && c.option.Username == "" && strings.Contains(answer, "wrong number of arguments") {
			answer, err = g.ask("AUTH", c.option.Password) // before Redis 6
		}
		if err != nil || answer != "+OK" {
			return unwelcome("AUTH", answer, err)
		}
	}
	if n := c.option.SelectDB; n != 0 {
		if answer, err := g.ask("SELECT", strconv.Itoa(n)); err != nil || answer != "+OK" {
			return unwelcome("SELECT", answer, err)
		}
	}
	answer, err := g.ask("PING")
	word, _, _ := strings.Cut(strings.TrimPrefix(answer, "-"), " ")
	if err != nil || answer != "+PONG" && word != "NOPERM" && !slices.Contains(passing, word) {
		return unwelcome("PING", answer, err)
	}
	return nil
}

func unwelcome(command, answer string, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", command, err)
	}
	return fmt.Errorf("%s: the server answers %q", command, answer)
}

// greeting has the commands at the begin of a connection, whose answers are a line each.
type greeting struct {
	conn net.Conn
	from *bufio.Reader
}

func (g *greeting) ask(command ...string) (answer string, err error) {
	out := fmt.Appendf(nil, "*%d\r\n", len(command))
	for _, s := range command {
		out = fmt.Appendf(out, "$%d\r\n%s\r\n", len(s), s)
	}
	_, wrong := g.conn.Write(out)
	line, err := g.from.ReadSlice('\n') // also if the server says why it does not read
	if err != nil {
		return "", errors.Join(wrong, err)
	}
	return strings.TrimRight(string(line), "\r\n"), nil
}

// conn notes whether an entry was written. If the connection ends before, its error is a [dialError]. The
// library may read its end while it writes the first entry: what is noted first holds, and nothing is written
// after an end without entries.
type conn struct {
	net.Conn
	mu   sync.Mutex
	used bool
	end  error
}

// Read implements [net.Conn].
func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if err == nil {
		return n, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.used:
		return n, err
	case c.end == nil:
		c.end = &dialError{err}
	}
	return n, c.end
}

// Write implements [net.Conn].
func (c *conn) Write(b []byte) (int, error) {
	c.mu.Lock()
	if c.end != nil {
		defer c.mu.Unlock()
		return 0, c.end
	}
	c.used = c.used || bytes.Contains(b, []byte(addCommand+"\r\n"))
	used := c.used
	c.mu.Unlock()
	n, err := c.Conn.Write(b)
	if err == nil || used {
		return n, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.end == nil {
		c.end = &dialError{err}
	}
	return n, c.end
}
