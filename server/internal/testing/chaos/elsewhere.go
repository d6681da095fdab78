package chaos

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/carillonhq/carillon/server/internal/testing/checker"
	"github.com/carillonhq/carillon/server/internal/testing/deliveries"
)

// WorkerSpec is what a worker in a process of its own is told.
type WorkerSpec struct {
	Name, Address string
	Seed          uint64
}

// Work is a worker in a process of its own, so that it can be halted: it tells what it sees and says in lines
// of JSON, and behaves well once its input ends. It returns when ctx ends.
func Work(ctx context.Context, spec WorkerSpec, in io.Reader, out io.Writer) {
	good := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, in) // however it ends
		close(good)
	}()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	l := &laborer{name: spec.Name, address: spec.Address, sees: &teller{out: json.NewEncoder(out),
		deaf: stop},
		dice: newDice(spec.Seed, spec.Name), good: good}
	l.run(ctx)
}

// line is one thing that a worker elsewhere tells.
type line struct {
	Attempt *checker.Attempt      `json:",omitempty"`
	Sent    *checker.Result       `json:",omitempty"`
	Told    checker.ResultVerdict `json:",omitempty"`
	Beat    *checker.Heartbeat    `json:",omitempty"`
	Away    bool                  `json:",omitempty"`
	Back    bool                  `json:",omitempty"`
	Place   int                   // of Sent and Told
	Token   string                `json:",omitempty"` // of Told
}

// teller is the witness of a worker elsewhere.
type teller struct {
	mu   sync.Mutex
	out  *json.Encoder
	deaf func() // called when nobody listens any more
	said int
}

var _ witness = (*teller)(nil)

func (t *teller) tell(l line) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.out.Encode(l); err != nil {
		t.deaf()
	}
}

func (t *teller) attempt(a checker.Attempt) {
	a.At = time.Now()
	t.tell(line{Attempt: &a})
}

func (t *teller) sent(r checker.Result) int {
	t.mu.Lock()
	t.said++
	place := t.said
	t.mu.Unlock()
	r.Sent = time.Now()
	t.tell(line{Sent: &r, Place: place})
	return place
}

func (t *teller) told(place int, token string, v checker.ResultVerdict) {
	t.tell(line{Told: v, Place: place, Token: token})
}

func (t *teller) beat(b checker.Heartbeat) {
	b.At = time.Now()
	t.tell(line{Beat: &b})
}

func (t *teller) away() func() {
	t.tell(line{Away: true})
	return func() { t.tell(line{Back: true}) }
}

// elsewhere is a worker's process, seen from here.
type elsewhere struct {
	name  string
	cmd   *exec.Cmd
	input io.Closer // it behaves well once this is closed
	done  chan struct{}
	err   error // of reading; when done
}

// startElsewhere starts the process of a worker. What it tells goes to the notes.
func startElsewhere(cmd *exec.Cmd, n *notes) (*elsewhere, error) {
	dieWithParent(cmd)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start a worker: %w", err)
	}
	e := &elsewhere{name: n.name, cmd: cmd, input: in, done: make(chan struct{})}
	go func() {
		defer close(e.done)
		e.err = hear(out, n)
		_ = cmd.Wait() // it is killed
	}()
	return e, nil
}

// hear notes what a worker elsewhere tells, until it ends.
func hear(out io.Reader, n *notes) error {
	places := map[int]int{}
	back := func() {}
	defer func() { back() }()
	d := json.NewDecoder(bufio.NewReader(out))
	for {
		var l line
		if err := d.Decode(&l); err != nil {
			if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, os.ErrClosed) {
				return nil // it was killed, perhaps in the middle of a word
			}
			return fmt.Errorf("a worker elsewhere: %w", err)
		}
		switch {
		case l.Attempt != nil:
			n.attempt(*l.Attempt)
		case l.Sent != nil:
			places[l.Place] = n.sent(*l.Sent)
		case l.Told != "":
			n.told(places[l.Place], l.Token, l.Told)
		case l.Beat != nil:
			n.beat(*l.Beat)
		case l.Away:
			back = n.away()
		case l.Back:
			back()
			back = func() {}
		}
	}
}

// halt stops the process for a while.
func (e *elsewhere) halt(ctx context.Context, book *deliveries.Book, d time.Duration) error {
	from := time.Now()
	if err := freeze(e.cmd.Process); err != nil {
		return err
	}
	err := errors.Join(pause(ctx, d), thaw(e.cmd.Process))
	book.Stopped(deliveries.Stop{Receiver: e.name, From: from, To: time.Now()})
	return err
}

// end kills the process, and waits until everything that it told is noted.
func (e *elsewhere) end() error {
	err := e.cmd.Process.Kill()
	if errors.Is(err, os.ErrProcessDone) {
		err = nil
	}
	<-e.done
	return errors.Join(err, e.err)
}
