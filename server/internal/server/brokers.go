package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/brokerfile"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/dispatch"
	"github.com/carillonhq/carillon/server/internal/dispatch/broker"
	"github.com/carillonhq/carillon/server/internal/dispatch/brokertarget"
	"github.com/carillonhq/carillon/server/internal/ingest"
	"github.com/carillonhq/carillon/server/internal/payload"
)

// Brokers says which message brokers runs may be sent to.
type Brokers struct {
	// File names them, in YAML (docs/brokers.md). It is read again when it, or a file that it names, has
	// changed. Empty: there are none.
	File string
	// Clients make the clients of the kinds that this program knows.
	Clients map[string]broker.New
	// Sources make what takes messages, of the kinds that this program can take them from. The messages are
	// taken by a [Feed], which follows [Intake.Ingests].
	Sources map[string]broker.NewSource
	// Reload has the file read again at once. Nil: it is looked at every few seconds only.
	Reload <-chan os.Signal
}

func (b *Brokers) validate() error {
	if b.File == "" {
		return nil
	}
	if _, err := b.read(); err != nil {
		return fmt.Errorf("brokers: %w", err)
	}
	return nil
}

// read reads the file.
func (b *Brokers) read() (*brokerfile.File, error) {
	all, err := brokerfile.Read(b.File)
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(all.Brokers)) {
		if kind := all.Brokers[name].Kind; b.Clients[kind] == nil {
			err = errors.Join(err, fmt.Errorf("%s: brokers.%s.kind: %s is not supported yet, only %s", b.File, name, kind,
				strings.Join(slices.Sorted(maps.Keys(b.Clients)), ", ")))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(all.Ingests)) {
		if kind := all.Ingests[name].Settings.Kind; b.Sources[kind] == nil {
			err = errors.Join(err, fmt.Errorf("%s: ingest.%s.broker: messages of brokers of kind %s cannot be taken yet, "+
				"only of %s", b.File, name, kind, strings.Join(slices.Sorted(maps.Keys(b.Sources)), ", ")))
		}
	}
	return all, err
}

// brokers are the brokers of a node, as their file has them at present.
type brokers struct {
	*brokertarget.Set

	config *Brokers
	log    *slog.Logger
	end    context.CancelFunc // of what looks at the file
	over   chan struct{}      // closed when it has ended

	mu      sync.Mutex
	ingests map[string]ingest.Config
	follows func(map[string]ingest.Config) // nil: nobody
}

// followIngests has f called with the ingests, at once and when the file has changed. It is called from one
// goroutine at a time.
func (b *brokers) followIngests(f func(map[string]ingest.Config)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.follows = f
	f(b.ingests)
}

func (b *brokers) setIngests(all map[string]ingest.Config) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ingests = all; b.follows != nil {
		b.follows(all)
	}
}

// openBrokers makes clients of the brokers, and has the file looked at until close.
func openBrokers(c *Brokers, log *slog.Logger) (*brokers, error) {
	b := &brokers{Set: brokertarget.NewSet(c.Clients), config: c, log: log, over: make(chan struct{})}
	ctx, cancel := context.WithCancel(context.Background())
	b.end = cancel
	if c.File == "" {
		close(b.over)
		return b, nil
	}
	all, err := c.read()
	if err == nil {
		err = b.Apply(all.Brokers)
	}
	if err != nil {
		cancel()
		return nil, fmt.Errorf("configuration: brokers: %w", err)
	}
	b.setIngests(all.Ingests)
	go func() {
		defer close(b.over)
		f := followed{path: c.File, what: "brokers", reload: c.Reload, log: log}
		f.follow(ctx, all.Prints(), b.reread)
	}()
	return b, nil
}

// reread reads the file, and puts the brokers in force if they are not those that there are.
func (b *brokers) reread(have map[string]string, asked bool) (now map[string]string, err error) {
	all, err := b.config.read()
	if err != nil {
		return nil, err
	}
	now = all.Prints()
	changed := !maps.Equal(have, now)
	if changed {
		if err := b.Apply(all.Brokers); err != nil {
			return nil, err
		}
		b.setIngests(all.Ingests)
	}
	if changed || asked {
		b.log.Info("the brokers' file was read again", "file", b.config.File, "changed", changed,
			"brokers", strings.Join(slices.Sorted(maps.Keys(all.Brokers)), ", "),
			"ingests", strings.Join(slices.Sorted(maps.Keys(all.Ingests)), ", "))
	}
	return now, nil
}

// close ends the clients, after their transports have been closed.
func (b *brokers) close() error {
	b.end()
	<-b.over
	return b.Close()
}

// addTransports adds the transports of the kinds of brokers.
func (b *brokers) addTransports(to map[string]dispatch.Transport, payloads *payload.Store,
	now func() time.Time) {
	o := brokertarget.Options{Now: now, Log: b.log}
	if payloads != nil {
		o.Payloads = payloads
	}
	for _, kind := range b.Kinds() {
		to[kind] = brokertarget.New(kind, b.Set, o)
	}
}

// supports returns an error about a target of a kind that this program has no client of.
func (b *brokers) supports(t *carillon.Target) error {
	kind := t.Kind()
	if slices.Contains(delivery.BrokerKinds, kind) && !b.Has(kind) {
		return carillon.Errorf(carillon.InvalidArgument, "target."+kind, "not supported yet")
	}
	return nil
}
