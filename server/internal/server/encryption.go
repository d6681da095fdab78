package server

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"

	"github.com/carillonhq/carillon/server/internal/engine"
	"github.com/carillonhq/carillon/server/internal/keyset"
	"github.com/carillonhq/carillon/server/internal/payload"
	"github.com/carillonhq/carillon/server/internal/yamlfile"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/sealed"
)

// Encryption says with which keys what jobs hold is encrypted in the store.
type Encryption struct {
	// Keys is a file with a Tink keyset in JSON (docs/security.md). It is read again when it has changed.
	// Empty: nothing is encrypted, and a store in which something is, is refused.
	Keys string
	// KEK is the URI of the key that the file is encrypted with. Empty: it is in the clear.
	KEK string
	// Reload has the file read again at once. Nil: it is looked at every few seconds only.
	Reload <-chan os.Signal
}

func (e *Encryption) file() keyset.File { return keyset.File{Path: e.Keys, KEK: e.KEK} }

func (e *Encryption) validate() error {
	switch {
	case e.Keys == "" && e.KEK == "":
		return nil
	case e.Keys == "":
		return errors.New("encryption_kek: there is no file that it decrypts: give encryption_keys, too")
	}
	if _, err := e.file().Read(); err != nil {
		return fmt.Errorf("encryption_keys: %w", err)
	}
	return nil
}

// setting says for the other nodes whether there are keys. Which ones differs while they are replaced.
func (e *Encryption) setting() string {
	if e.Keys == "" {
		return "no --encryption-keys"
	}
	return "with --encryption-keys"
}

// encryption is the keys of a node. Nil: there are none.
type encryption struct {
	*sealed.Box

	keys  *keyset.Set
	file  keyset.File
	store store.Store
	log   *slog.Logger
	end   context.CancelFunc // of what looks at the file
	over  chan struct{}      // closed when it has ended
}

// openEncryption reads the keys, and has their file looked at until close. A store that needs others is
// refused.
func openEncryption(ctx context.Context, c *Config, s store.Store) (*encryption, error) {
	if c.Encryption.Keys == "" {
		return nil, slowToOpen(storedMarks(ctx, s, store.CheckUnsealed))
	}
	e := &encryption{file: c.Encryption.file(), store: s, log: c.Log, over: make(chan struct{})}
	seen, err := e.seen()
	if err != nil {
		return nil, fmt.Errorf("configuration: encryption_keys: %w", err)
	}
	keys, err := e.file.Read()
	if err != nil {
		return nil, fmt.Errorf("configuration: encryption_keys: %w", err)
	}
	e.keys = keyset.NewSet(keys)
	e.Box = sealed.New(e.keys)
	if err := storedMarks(ctx, s, e.Check); err != nil {
		return nil, slowToOpen(err) // not an error of above: a KMS is not the store
	}
	ctx, cancel := context.WithCancel(context.Background())
	e.end = cancel
	go func() {
		defer close(e.over)
		f := followed{path: e.file.Path, what: "keys of encryption", reload: c.Encryption.Reload, log: c.Log}
		f.follow(ctx, seen, func(have map[string]string, asked bool) (map[string]string, error) {
			return e.reread(ctx, have, asked)
		})
	}()
	return e, nil
}

// seen tells one state of the file from another, without asking a KMS.
func (e *encryption) seen() (map[string]string, error) {
	text, err := yamlfile.Bytes(e.file.Path)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(text)
	return map[string]string{"file": hex.EncodeToString(sum[:])}, nil
}

// reread puts the keys of the file in force, unless it lacks some that records of the store are encrypted
// with.
func (e *encryption) reread(ctx context.Context, have map[string]string,
	asked bool) (map[string]string, error) {
	now, err := e.seen()
	if err != nil || now["file"] == have["file"] && !asked {
		return now, err
	}
	keys, err := e.file.Read()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, lookAtFiles)
	defer cancel()
	if err := storedMarks(ctx, e.store, sealed.New(keys).Check); err != nil {
		return nil, err
	}
	was := e.keys.Keys()
	e.keys.Apply(keys)
	e.log.Info("the keys of encryption were read again", "file", e.file.Path, "keys", len(keys.List()),
		"primary", fmt.Sprintf("%08x", keys.Primary()), "primary_before", fmt.Sprintf("%08x", was.Primary()))
	return now, nil
}

// storedMarks calls check with the marks of each partition. What is damaged is passed over: whoever takes
// such a partition over finds that, and others are served.
func storedMarks(ctx context.Context, s store.Store, check func([]store.MetaRecord) error) error {
	numbers := make([]int, s.Meta().Partitions)
	for i := range numbers {
		numbers[i] = i
	}
	if g, ok := s.(store.Gatherer); ok {
		all, err := g.Gather(ctx, store.KindSeal, numbers)
		if err == nil {
			err = check(slices.Concat(all...))
		}
		if !errors.Is(err, store.ErrDamaged) {
			return err
		} // the others still tell which keys are needed: they are looked at one by one
	}
	for _, i := range numbers {
		shard, err := s.Shard(i, store.Term{})
		if err != nil {
			return err
		}
		marks, err := shard.MetaRecords(ctx, store.SealMarks)
		if err == nil {
			err = check(marks)
		}
		if unlessDamaged(err) != nil {
			return err
		}
	}
	return nil
}

func unlessDamaged(err error) error {
	if errors.Is(err, store.ErrDamaged) {
		return nil
	}
	return err
}

// sealer is the node's encryption for its engine.
func (e *encryption) sealer() engine.Encryption {
	if e == nil {
		return nil
	}
	return e.Box
}

// streams is the node's encryption for its payload store.
func (e *encryption) streams() payload.Encryption {
	if e == nil {
		return nil
	}
	return e.keys
}

// records is the store of the jobs as it is without encryption, for reads.
func (e *encryption) records(s store.Store) payload.Records {
	if e == nil {
		return s
	}
	return inTheClear{s, e.Box}
}

type inTheClear struct {
	store store.Store
	box   *sealed.Box
}

// Shard implements [payload.Records].
func (c inTheClear) Shard(partition int, term store.Term) (store.Shard, error) {
	s, err := c.store.Shard(partition, term)
	if err != nil {
		return nil, err
	}
	return c.box.Shard(s), nil
}

// Meta implements [payload.Records].
func (c inTheClear) Meta() store.Meta { return c.store.Meta() }

// close ends what looks at the file.
func (e *encryption) close() {
	if e != nil {
		e.end()
		<-e.over
	}
}
