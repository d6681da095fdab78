package server

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/dispatch/httptarget"
	"github.com/carillonhq/carillon/server/internal/secrets"
)

// Secrets says which secrets headers of HTTP targets may refer to.
type Secrets struct {
	// File names them, in YAML (docs/operations.md). It is read again when it, or a file that it names, has
	// changed. Empty: there are none.
	File string
	// Reload has the file read again at once. Nil: it is looked at every few seconds only.
	Reload <-chan os.Signal
}

func (s *Secrets) validate() error {
	if s.File == "" {
		return nil
	}
	if _, err := secrets.Read(s.File); err != nil {
		return fmt.Errorf("secrets: %w", err)
	}
	return nil
}

// secretSet are the secrets of a node, as their file has them at present.
type secretSet struct {
	*secrets.Set

	file string
	log  *slog.Logger
	end  context.CancelFunc // of what looks at the file
	over chan struct{}      // closed when it has ended
}

// openSecrets reads the secrets, and has their file looked at until close.
func openSecrets(t *Targets, log *slog.Logger) (*secretSet, error) {
	c, client := &t.Secrets, httptarget.Client(httptarget.Options{Allow: t.Allow})
	s := &secretSet{Set: secrets.NewSet(client, log), file: c.File, log: log, over: make(chan struct{})}
	ctx, cancel := context.WithCancel(context.Background())
	s.end = cancel
	if c.File == "" {
		close(s.over)
		return s, nil
	}
	all, err := secrets.Read(c.File)
	if err != nil {
		cancel()
		return nil, fmt.Errorf("configuration: secrets: %w", err)
	}
	s.Apply(all)
	go func() {
		defer close(s.over)
		f := followed{path: c.File, what: "secrets", reload: c.Reload, log: log}
		f.follow(ctx, secrets.Prints(all), s.reread)
	}()
	return s, nil
}

// check is what tells whether a target may have the secrets that it refers to; nil: the node has no secrets.
func (s *secretSet) check() func(namespace string, t *carillon.HTTPTarget) error {
	if s.file == "" {
		return nil
	}
	return s.Check
}

// reread reads the file, and puts the secrets in force if they are not those that there are.
func (s *secretSet) reread(have map[string]string, asked bool) (now map[string]string, err error) {
	all, err := secrets.Read(s.file)
	if err != nil {
		return nil, err
	}
	now = secrets.Prints(all)
	changed := !maps.Equal(have, now)
	if changed {
		s.Apply(all)
	}
	if changed || asked {
		s.log.Info("the secrets' file was read again", "file", s.file, "changed", changed,
			"secrets", strings.Join(slices.Sorted(maps.Keys(all)), ", "))
	}
	return now, nil
}

// close ends what looks at the file, and requests for tokens.
func (s *secretSet) close() {
	s.end()
	<-s.over
	s.Close()
}
