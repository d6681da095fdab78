package chaos_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	sched "github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/server/internal/dispatch/broker"
	"github.com/carillonhq/carillon/server/internal/testing/chaos"
	"github.com/carillonhq/carillon/server/internal/testing/realserver"
)

const (
	ingestLot   = 60  // jobs that a lot is about
	ingestKills = 500 // messages between two kills
)

// TestIngestIsKilled has commands come by a broker while what takes them is killed: the only node, on Pebble, or
// one at a time of three on PostgreSQL; and the broker, every second time. Every command that the broker has
// acknowledged has its effect once, nothing else has one, what is no command is a dead letter, and in the end
// nothing comes again. A node is killed once more as soon as it takes messages again. Without -cycles that is done
// once, on Pebble with Kafka and on PostgreSQL with Redis.
func TestIngestIsKilled(t *testing.T) {
	t.Parallel()
	binary := carillonBinary(t)
	for kind, start := range sources {
		t.Run("one node/"+kind, func(t *testing.T) {
			if *cycles == 0 && kind != "kafka" {
				t.Skip("only with -cycles")
			}
			t.Parallel()
			s := start(t)
			n := newNode(t, binary, "pebble:"+filepath.Join(t.TempDir(), "store"), "--brokers", s.file(t))
			killIngest(t, &s, n)
		})
		t.Run("three nodes/"+kind, func(t *testing.T) {
			if *cycles == 0 && kind != "redis" {
				t.Skip("only with -cycles")
			}
			t.Parallel()
			s := start(t)
			file := s.file(t)
			store := realserver.StartPostgres(t, realserver.Volatile()...).Database(t)
			var all []*chaos.Node
			for _, name := range []string{"a", "b", "c"} {
				all = append(all, newNode(t, binary, store, "--node-name", name, "--partitions", "16", "--brokers", file))
			}
			killIngest(t, &s, all...)
		})
	}
}

func killIngest(t *testing.T, s *source, nodes ...*chaos.Node) {
	var addresses []string
	t.Cleanup(func() {
		for _, n := range nodes {
			if t.Failed() {
				t.Logf("the node %s has logged:\n%s", n.GRPC, n.Log())
			}
		}
	})
	for _, n := range nodes {
		up(t, n)
		addresses = append(addresses, n.GRPC)
	}
	all := strings.Join(addresses, ",")
	c := dialAll(t, all)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	running.Go(func() { work(ctx, t, dialAll(t, all)) })
	p := &producer{source: s, jobs: c, ledger: map[string]*told{}}
	sending, enough := context.WithCancel(ctx)
	defer enough()
	sent := make(chan error, 1)
	running.Go(func() { sent <- p.run(ctx, sending) })
	kills := often(1)
	for i := range kills {
		more := p.sent.Load() + ingestKills
		p.most.Store(more + ingestKills) // so that messages come while the node is away, and not too many
		realserver.Eventually(t, func() error {
			select {
			case err := <-sent:
				return fmt.Errorf("the producer has ended: %w", err)
			default:
			}
			if n := p.sent.Load(); n < more {
				return fmt.Errorf("%d of %d messages are sent: %v", n, more, p.late.Load())
			}
			return nil
		})
		n := nodes[i%len(nodes)]
		if i%2 == 0 {
			s.crash(t)
		}
		must(t, n.Kill())
		if i%2 == 0 {
			s.up(t)
		}
		up(t, n)
		killAgain(t, n)
	}
	enough()
	must(t, <-sent)
	p.settled(t, nodes)
	p.readLetters(t)
	p.acknowledged(t, nodes)
	p.check(t)
	t.Logf("%d kills of nodes, %d messages for %d jobs, %d sent again, %d dead letters", kills, p.sent.Load(),
		len(p.ledger), p.again, len(p.letters))
}

// killAgain kills a node that was started as soon as it takes messages, of which most are under way then, if it does so
// soon, and starts it again.
func killAgain(t *testing.T, n *chaos.Node) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	err := n.Until(ctx, "/metrics", func(body string, _ error) bool {
		return strings.Contains(body, "carillon_ingest_messages_total{")
	})
	if err == nil {
		must(t, n.Kill())
		up(t, n)
	}
}

// producer sends commands, and has a ledger of them.
type producer struct {
	*source

	jobs    *client.Client
	ledger  map[string]*told // by the job's name
	letters map[string]int   // dead letters, by the event's id
	sent    atomic.Int64
	most    atomic.Int64 // no more are sent for now, but for one lot
	late    atomic.Value // string: what it waits for, when that takes long
	again   int          // messages that were sent again, since the broker did not acknowledge them
	serial  int          // of messages
}

// run sends lots until the context sending ends, and then what belongs to them.
func (p *producer) run(ctx, sending context.Context) error {
	c, err := p.client()
	if err != nil {
		return err
	}
	pace := time.NewTicker(20 * time.Millisecond)
	defer pace.Stop()
	var open []string // jobs that are not told everything yet
	for lot := 0; sending.Err() == nil || len(open) > 0; lot++ {
		<-pace.C
		if sending.Err() == nil {
			if p.sent.Load() >= p.most.Load() {
				continue
			}
			for i := range ingestLot {
				role := order[i%len(order)]
				name := fmt.Sprintf("%s/%d/%d", strings.ReplaceAll(role, " ", "-"), lot, i)
				p.ledger[name] = newTold(role, name)
				open = append(open, name)
			}
		}
		if err := p.ready(ctx, open); err != nil {
			return errors.Join(err, c.Close())
		}
		var ms []broker.Message
		var rest []string
		for _, name := range open {
			w := p.ledger[name]
			ms = append(ms, p.message(name, roles[w.role][w.sent]))
			if w.sent++; w.sent < len(roles[w.role]) {
				rest = append(rest, name)
			}
		}
		if err := p.publish(ctx, c, ms); err != nil {
			return errors.Join(err, c.Close())
		}
		open = rest
	}
	return c.Close()
}

// ready waits until the second stage of jobs may be sent: where messages may come again in another order, when the
// first is done.
func (p *producer) ready(ctx context.Context, open []string) error {
	for _, name := range open {
		w := p.ledger[name]
		for !p.inOrder && w.sent == 1 && (w.role == "later" || w.role == "trigger" || w.role == "gone") {
			_, err := p.jobs.GetJob(ctx, sched.Key{Namespace: sched.DefaultNamespace, Name: name})
			if err == nil {
				break
			}
			p.late.Store(fmt.Sprintf("%s is not there: %v", name, err))
			if ctx.Err() != nil {
				return fmt.Errorf("what was put is not there: %w", err)
			}
		}
	}
	return nil
}

func (p *producer) message(name string, c command) broker.Message {
	p.serial++
	m := broker.Message{To: p.to(name), ID: fmt.Sprint("message ", p.serial), Data: []byte(c.data)}
	if c.typ == "" {
		m.Data = fmt.Append(m.Data, " ", name)
		return m
	}
	m.Headers = []broker.Header{{Name: "ce-specversion", Value: "1.0"}, {Name: "ce-id", Value: name + "/" + c.id},
		{Name: "ce-source", Value: "/producer"}, {Name: "ce-type", Value: c.typ}, {Name: "ce-subject", Value: name}}
	if c.data != "" {
		m.ContentType = "application/json"
	}
	return m
}

// publish sends messages until the broker has acknowledged each of them.
func (p *producer) publish(ctx context.Context, c broker.Client, ms []broker.Message) error {
	pace := time.NewTicker(20 * time.Millisecond)
	defer pace.Stop()
	for len(ms) > 0 {
		errs := make([]error, len(ms))
		var answered sync.WaitGroup
		answered.Add(len(ms))
		once, cancel := context.WithTimeout(ctx, 10*time.Second)
		c.Publish(once, ms, func(i int, err error) {
			errs[i] = err
			answered.Done()
		})
		answered.Wait()
		cancel()
		var rest []broker.Message
		for i := range ms {
			if errs[i] != nil {
				p.serial++
				ms[i].ID = fmt.Sprint("message ", p.serial) // so that a stream of JetStream keeps it
				rest = append(rest, ms[i])
			}
		}
		p.sent.Add(int64(len(ms) - len(rest)))
		p.again += len(rest)
		if err := cmp.Or(errs...); err != nil {
			p.late.Store(fmt.Sprintf("%d messages are not acknowledged: %v", len(rest), err))
		}
		if err := errors.Join(errs...); err != nil && (ctx.Err() != nil || errors.Is(err, broker.ErrRefused)) {
			return fmt.Errorf("%d messages are not acknowledged: %w", len(rest), err)
		}
		if ms = rest; len(ms) > 0 {
			<-pace.C
		}
	}
	return nil
}

// settling is how long it may take until no message is left. A group of Kafka waits for members that were killed,
// one after the other, for up to a minute each.
const settling = 5 * time.Minute

// settled waits until the nodes say that no message is left, and all effects are there.
func (p *producer) settled(t *testing.T, nodes []*chaos.Node) {
	t.Helper()
	left := func() error {
		lag := 0
		for _, n := range nodes {
			got, known := metric(t, n, "carillon_ingest_lag")
			if !known {
				return errors.New("the lag of a node is not known")
			}
			lag += got
		}
		if lag != 0 {
			return fmt.Errorf("%d messages are not acknowledged", lag)
		}
		return cmp.Or(p.wrong(t, false)...)
	}
	pace := time.NewTicker(100 * time.Millisecond)
	defer pace.Stop()
	late := time.After(settling)
	for err := left(); err != nil; err = left() {
		select {
		case <-pace.C:
		case <-late:
			t.Fatal(err)
		}
	}
}

// metric is the sum of a metric over its labels.
func metric(t *testing.T, n *chaos.Node, name string) (sum int, known bool) {
	t.Helper()
	until(t, n, "/metrics", func(body string, err error) bool {
		for line := range strings.Lines(body) {
			if !strings.HasPrefix(line, name+"{") {
				continue
			}
			v, bad := strconv.ParseFloat(strings.TrimSpace(line[strings.LastIndexByte(line, ' ')+1:]), 64)
			err = cmp.Or(err, bad)
			sum, known = sum+int(v), true
		}
		return err == nil
	})
	return sum, known
}

// readLetters reads all dead letters.
func (p *producer) readLetters(t *testing.T) {
	t.Helper()
	c, err := p.client()
	must(t, err)
	const end = "the end"
	must(t, p.publish(t.Context(), c, []broker.Message{{To: p.dead, ID: end, Data: []byte(end)}}))
	must(t, c.Close())
	source, err := p.source.letters()
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	p.letters = map[string]int{}
	for over := false; !over; {
		all, err := source.Receive(ctx)
		must(t, err)
		for _, d := range all {
			d.Done()
			if string(d.Data) == end {
				over = true
				continue
			}
			id := cmp.Or(d.Header("ce-id"), string(d.Data))
			p.letters[id]++
			for _, name := range []string{"reason", "reason-kind", "from", "ingest"} {
				if d.Header("carillon-"+name) == "" {
					t.Errorf("the dead letter %s has no carillon-%s", id, name)
				}
			}
		}
	}
	must(t, source.Close())
}

// acknowledged has the nodes leave and start again: then a new message comes, and none of the others.
func (p *producer) acknowledged(t *testing.T, nodes []*chaos.Node) {
	t.Helper()
	for _, n := range nodes {
		must(t, n.Leave(t.Context()))
	}
	for _, n := range nodes {
		up(t, n)
	}
	const name = "later/last"
	p.ledger[name] = newTold("later", name)
	c, err := p.client()
	must(t, err)
	must(t, p.publish(t.Context(), c, []broker.Message{p.message(name, roles["later"][1])}))
	must(t, c.Close())
	came := func() (n int) {
		for _, of := range nodes {
			got, _ := metric(t, of, "carillon_ingest_messages_total")
			n += got
		}
		return n
	}
	realserver.Eventually(t, func() error {
		if came() == 0 {
			return errors.New("a message does not come")
		}
		return cmp.Or(p.wrong(t, true)...)
	})
	if n := came(); n != 1 {
		t.Errorf("after a restart %d messages have come, and one was sent", n)
	}
}

// check compares the ledger with what there is.
func (p *producer) check(t *testing.T) {
	t.Helper()
	const shown = 10
	all := p.wrong(t, true)
	for _, err := range all[:min(shown, len(all))] {
		t.Error(err)
	}
	if len(all) > shown {
		t.Errorf("%d differences", len(all))
	}
}

// wrong is what is not as the ledger says, of dead letters only if they were read.
func (p *producer) wrong(t *testing.T, lettersToo bool) (errs []error) {
	t.Helper()
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	runs, jobs := p.allRuns(t), p.allJobs(t)
	expected := map[string]bool{}
	for name, w := range p.ledger {
		least := w.runs
		if w.role == "early" && !p.inOrder { // the trigger may have come again after the job
			runs[name] = max(0, runs[name]-1)
		}
		note, there := jobs[name]
		switch {
		case runs[name] != least:
			bad("%s has %d runs that have succeeded, not %d", name, runs[name], least)
		case there == w.gone:
			bad("%s is there: %v", name, there)
		case there && note != w.note:
			bad("%s has the note %q, not %q", name, note, w.note)
		}
		delete(runs, name)
		delete(jobs, name)
		for _, id := range w.refused {
			expected[id] = true
			if lettersToo && p.letters[id] == 0 && (w.role != "early" || p.inOrder) {
				bad("%s is no dead letter", id)
			}
		}
	}
	for name := range jobs {
		bad("nobody has put %s", name)
	}
	for name := range runs {
		bad("%s has run, and nobody has put it", name)
	}
	for id := range p.letters {
		if !expected[id] {
			bad("%s is a dead letter", id)
		}
	}
	return errs
}

// allRuns are how many runs of each job have succeeded; one that has ended in any other way counts as a thousand.
func (p *producer) allRuns(t *testing.T) map[string]int {
	t.Helper()
	all := map[string]int{}
	q := sched.RunQuery{Namespace: sched.DefaultNamespace, PageSize: 1000}
	for {
		page, err := p.jobs.ListRuns(t.Context(), q)
		must(t, err)
		for _, r := range page.Runs {
			if r.Status == sched.RunSucceeded {
				all[r.Job]++
			} else if !r.Finished.IsZero() {
				all[r.Job] += 1000
			}
		}
		if q.PageToken = page.NextPageToken; q.PageToken == "" {
			return all
		}
	}
}

// allJobs are the notes of all jobs, by name.
func (p *producer) allJobs(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	q := sched.JobQuery{Namespace: sched.DefaultNamespace, PageSize: 1000}
	for {
		page, err := p.jobs.ListJobs(t.Context(), q)
		must(t, err)
		for _, j := range page.Jobs {
			all[j.Name] = j.Note
		}
		if q.PageToken = page.NextPageToken; q.PageToken == "" {
			return all
		}
	}
}
