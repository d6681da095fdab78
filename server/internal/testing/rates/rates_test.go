package rates

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/server/internal/testing/bench"
	"github.com/carillonhq/carillon/server/internal/testing/chaos"
)

var (
	rounds   = flag.Int("rounds", 0, "measure in so many rounds, and print their medians")
	kinds    = flag.String("kinds", "kafka,amqp,nats,redis", "kinds of brokers, by commas")
	stores   = flag.String("stores", "pebble,memory", "stores of the nodes, by commas")
	binary   = flag.String("binary", "", "program to measure; default this build's, which takes a while to be made")
	binaries = flag.String("binaries", "", "other builds to be measured beside this one: NAME=PATH, by commas")
	jobs     = flag.Int("jobs", 20_000, "runs of a herd, all due at one instant")
	rate     = flag.Float64("rate", 1000, "runs a second where they are steady")
	lasting  = flag.Duration("for", 5*time.Second, "for how long they are")
	inFlight = flag.Int("in-flight", 1024, "messages without an acknowledgement at a time")
	profiles = flag.String("profiles", "", "`folder` for profiles of the nodes")
)

// measured is what one round says of one way to publish.
type measured struct {
	rate                 float64 // messages a second
	p50, p99, most       float64 // ms from due to acknowledged
	cpu, brokers, factor float64 // µs a message, of the sender and of the broker; rate by that of the bare client
}

// sender is a way to publish.
type sender struct {
	name string
	send func(ctx context.Context, n int, rate float64) (bench.Result, error)
}

// plan says what is measured.
type plan struct {
	rounds int
	kinds  []string // of brokers
	stores []string
	jobs   int // of a herd
	rate   float64
	steady int // jobs at the rate
}

// TestRates prints, for each kind of broker, how many runs a second a node gets to it, and how long after they
// were due it acknowledges them: for a herd that is due at one instant and at a steady rate, with each store,
// and with the client library alone. It judges only that each run is at the broker once.
func TestRates(t *testing.T) {
	if *rounds == 0 {
		t.Skip("it measures only; -rounds=5 has it run")
	}
	plan{*rounds, strings.Split(*kinds, ","), strings.Split(*stores, ","), *jobs, *rate,
		max(1, int(*rate*lasting.Seconds()))}.run(t)
}

// TestOneRound is so small that it measures nothing: what would be measured is at the broker once.
func TestOneRound(t *testing.T) {
	if testing.Short() {
		t.Skip("processes are not for -short")
	}
	plan{1, []string{"nats", "redis"}, []string{"memory"}, 500, 500, 250}.run(t)
}

func (p plan) run(t *testing.T) {
	builds := append(named(t, *binaries), [2]string{"", build(t)})
	for _, kind := range p.kinds {
		t.Run(kind, func(t *testing.T) {
			start := brokers[kind]
			if start == nil {
				t.Fatalf("-kinds: %q is none of kafka, amqp, nats and redis", kind)
			}
			b := start(t)
			var all []sender
			for _, build := range builds {
				for _, store := range p.stores {
					all = append(all, node(t, &b, build, store))
				}
			}
			all = append(all, alone(&b))
			p.measure(t, &b, all, "herd", p.jobs, 0)
			p.measure(t, &b, all, fmt.Sprintf("%.0f/s", p.rate), p.steady, p.rate)
		})
	}
}

// named reads -binaries.
func named(t *testing.T, list string) (builds [][2]string) {
	for one := range strings.SplitSeq(list, ",") {
		if name, path, ok := strings.Cut(one, "="); ok {
			builds = append(builds, [2]string{name + " ", path})
		} else if one != "" {
			t.Fatalf("-binaries: %q is not NAME=PATH", one)
		}
	}
	return builds
}

// build builds the program, unless one is given.
func build(t *testing.T) string {
	t.Helper()
	if *binary != "" {
		return *binary
	}
	path, err := chaos.Build(t.Context(), t.TempDir())
	must(t, err)
	return path
}

// node starts a node whose runs go to the broker.
func node(t *testing.T, b *running, build [2]string, store string) sender {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "brokers.yaml")
	must(t, os.WriteFile(file, fmt.Appendf(nil, "brokers:\n  measured:\n    in_flight: %d\n%s", *inFlight,
		b.settings), 0o600))
	url := store + ":"
	if store == "pebble" {
		url += filepath.Join(dir, "store")
	}
	s, err := bench.Spawn(t.Context(), bench.Program{Binary: build[1], Store: url, Brokers: file, Log: os.Stderr})
	must(t, err)
	t.Cleanup(func() { must(t, s.Kill()) })
	under := s.Node(func(address string) (bench.Conn, error) { return client.Dial(address) })
	under.Throwaway = true
	name := "node, " + build[0] + store
	folder := ""
	if *profiles != "" {
		folder = filepath.Join(*profiles, strings.ReplaceAll(t.Name()+" "+name, "/", " "))
	}
	return sender{name: name, send: func(ctx context.Context, n int, rate float64) (bench.Result, error) {
		load, err := bench.Open(bench.Config{Node: under, Profiles: folder})
		if err != nil {
			return bench.Result{}, err
		}
		defer load.Close()
		r, err := bench.Broker{Target: b.target, Jobs: n, Rate: rate, Held: b.held}.Run(ctx, load)
		if err == nil && !r.OK() {
			err = fmt.Errorf("%s: %v", name, r.Ledger)
		}
		return r, err
	}}
}

// alone is the library without a node. It is to have published before the first round, as the nodes have.
func alone(b *running) sender {
	return sender{name: "library alone", send: func(ctx context.Context, n int, rate float64) (bench.Result, error) {
		r := bench.Result{Operations: int64(n)}
		before, err := b.held(ctx)
		if err != nil {
			return r, err
		}
		start, delays, own := time.Now(), bench.NewDelays(), bench.NewMeter(os.Getpid())
		due := func(i int) time.Time { return bench.Broker{Rate: rate}.Due(start, i) }
		if err := b.publish(ctx, n, due, func(i int) { delays.Add(time.Since(due(i))) }); err != nil {
			return r, err
		}
		r.Seconds = time.Since(start).Seconds()
		r.CPU, r.Rate, r.Lateness = own.Each(n), float64(n)/r.Seconds, delays.Quantiles()
		after, err := b.held(ctx)
		if err == nil && after-before != int64(n) {
			err = fmt.Errorf("the broker has got %d of %d messages of the library", after-before, n)
		}
		return r, err
	}}
}

// measure has all senders send in turn, so often, and prints the medians. What comes before the first round
// is to warm up.
func (p plan) measure(t *testing.T, b *running, all []sender, shape string, n int, rate float64) {
	t.Helper()
	of := make([][]measured, len(all))
	for round := range p.rounds + 1 {
		for i := range all {
			s := all[(i+round)%len(all)]
			m, err := once(t.Context(), b, &s, n, rate)
			must(t, err)
			if round > 0 {
				at := slices.IndexFunc(all, func(o sender) bool { return o.name == s.name })
				of[at] = append(of[at], m)
			}
		}
		if round > 0 {
			bare := of[len(all)-1][round-1].rate
			for i := range all {
				of[i][round-1].factor = of[i][round-1].rate / bare
			}
		}
		must(t, b.empty(t.Context()))
	}
	var table strings.Builder
	for i, ms := range of {
		fmt.Fprintf(&table, "| %s | %s | %s | %.0f/s | %.2f | %.1f / %.1f / %.1f ms | %.0f µs | %.0f µs |\n", b.name, shape,
			all[i].name, median(ms, func(m *measured) float64 { return m.rate }),
			median(ms, func(m *measured) float64 { return m.factor }),
			median(ms, func(m *measured) float64 { return m.p50 }), median(ms, func(m *measured) float64 { return m.p99 }),
			median(ms, func(m *measured) float64 { return m.most }), median(ms, func(m *measured) float64 { return m.cpu }),
			median(ms, func(m *measured) float64 { return m.brokers }))
	}
	t.Logf("medians of %d rounds; broker, load, sender, rate, by that of the library, p50/p99/max, CPU of the sender "+
		"and of the broker:\n%s", p.rounds, table.String())
}

// once measures one way of publishing once.
func once(ctx context.Context, b *running, s *sender, n int, rate float64) (measured, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	used := bench.NewMeter(b.pid)
	r, err := s.send(ctx, n, rate)
	if err != nil {
		return measured{}, fmt.Errorf("%s: %w", s.name, err)
	}
	m := measured{rate: r.Rate, cpu: r.CPU, brokers: used.Each(n)}
	if q := r.Lateness; q != nil {
		m.p50, m.p99, m.most = q.P50, q.P99, q.Max
	}
	return m, nil
}

func median(ms []measured, of func(*measured) float64) float64 {
	slices.SortFunc(ms, func(a, b measured) int { return cmp.Compare(of(&a), of(&b)) })
	return of(&ms[len(ms)/2])
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
