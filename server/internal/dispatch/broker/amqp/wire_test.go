package amqp

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"
)

// A corked wire writes at once what was collected, by whomever, and what comes after the cork by itself.
func TestWireCollects(t *testing.T) {
	near, far := net.Pipe()
	w := &wire{Conn: near, timeout: patience}
	heard := make(chan string)
	go func() {
		defer close(heard)
		buf := make([]byte, 1<<10)
		for {
			n, err := far.Read(buf) // a pipe keeps writes apart
			if err != nil {
				return
			}
			heard <- string(buf[:n])
		}
	}()
	write := func(text string) {
		t.Helper()
		_, err := io.WriteString(w, text)
		must(t, err)
	}
	w.cork()
	for _, text := range []string{"one", "two", "three"} {
		write(text)
	}
	go w.uncork()
	if got := <-heard; got != "onetwothree" {
		t.Errorf("%q", got)
	}
	go write("four")
	if got := <-heard; got != "four" {
		t.Errorf("%q", got)
	}
	must(t, far.Close())
	<-heard
}

// A write that fails ends the wire, and so does what follows.
func TestWireGivesUp(t *testing.T) {
	near, far := net.Pipe()
	defer func() { must(t, far.Close()) }()
	w := &wire{Conn: near, timeout: time.Millisecond}
	for range 2 {
		if _, err := io.WriteString(w, "nobody reads"); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%v, want a deadline", err)
		}
	}
	if _, err := far.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("the other side: %v, want the end", err)
	}
}
