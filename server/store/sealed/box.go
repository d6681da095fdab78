package sealed

import (
	"cmp"
	"slices"

	"github.com/carillonhq/carillon/server/internal/partition"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/codec"
)

// Keys encrypt and decrypt, and may change at any time.
type Keys interface {
	codec.Cipher
	// Has reports whether there is a key of an id.
	Has(id uint32) bool
}

// Box encrypts and decrypts the records of a store. It is safe for concurrent use.
type Box struct {
	keys Keys
	keep bool // texts that cannot be decrypted stay as they are
}

// New makes a box with keys. Where a text cannot be decrypted, what is read of it says so.
func New(keys Keys) *Box { return &Box{keys: keys} }

// Keeping returns a box whose reads leave texts that cannot be decrypted as they are, so that nothing is lost
// if they are written back. [Unopened] and its like tell of them.
func (b *Box) Keeping() *Box { return &Box{keys: b.keys, keep: true} }

// Writes returns a group of batches as the store is to have it. Their shards are those that [Box.Shard] has
// returned; those in the result are the store's own.
func (b *Box) Writes(writes []store.Write) ([]store.Write, error) {
	out := make([]store.Write, len(writes))
	for i, w := range writes {
		s, ok := w.Shard.(*Shard)
		if !ok {
			return nil, store.ErrOtherStore
		}
		batch, err := s.sealed(w.Batch)
		if err != nil {
			return nil, err
		}
		out[i] = store.Write{Shard: s.below, Batch: batch}
	}
	return out, nil
}

// Batch returns a batch as a store is to have it, without marks, and the ids of the keys that are in use in
// it. What is encrypted already stays as it is. The batch itself is not changed.
func (b *Box) Batch(of *store.Batch) (*store.Batch, []uint32, error) {
	s := sealing{keys: b.keys}
	out := *of
	if len(of.Puts) > 0 {
		out.Puts = slices.Clone(of.Puts)
		for i := range out.Puts {
			s.record(&out.Puts[i])
		}
	}
	if len(of.Runs) > 0 {
		out.Runs = slices.Clone(of.Runs)
		for i := range out.Runs {
			s.run(&out.Runs[i])
		}
	}
	if slices.ContainsFunc(of.MetaRecords, concerns) {
		out.MetaRecords = slices.Clone(of.MetaRecords)
		for i := range out.MetaRecords {
			s.meta(&out.MetaRecords[i])
		}
	}
	return &out, s.used, s.err
}

// concerns reports whether a metadata record may hold something that is encrypted. Of other kinds nothing is.
func concerns(r store.MetaRecord) bool {
	switch r.Kind {
	case store.KindIntent, store.KindEvents, store.KindNamespace:
		return r.Value != nil
	}
	return false
}

// sealing encrypts the records of a batch. The first error stays.
type sealing struct {
	keys Keys
	used []uint32
	err  error
}

// note notes a key that is in use, and an error; 0 is no key.
func (s *sealing) note(key uint32, err error) {
	if s.err == nil {
		s.err = err
	}
	if key != 0 && !slices.Contains(s.used, key) {
		s.used = append(s.used, key)
	}
}

func (s *sealing) record(r *store.Record) {
	for _, spec := range []*[]byte{&r.Spec, &r.Kept} {
		if *spec == nil {
			continue
		}
		b, err := codec.SealSpec(s.keys, r.Key, *spec)
		*spec = b
		s.note(codec.SpecSealedBy(b), err)
	}
	err := codec.SealState(s.keys, r.Key, &r.State)
	s.note(codec.StateSealedBy(&r.State), err)
}

func (s *sealing) run(r *store.RunRecord) {
	s.note(0, codec.SealRun(s.keys, r))
	if r.Sealed {
		s.note(codec.SealedBy(r.Response), nil)
	}
	s.note(codec.SpecSealedBy(r.Spec), nil)
}

func (s *sealing) meta(r *store.MetaRecord) {
	if !concerns(*r) {
		return
	}
	value, key, err := r.Value, uint32(0), error(nil)
	switch r.Kind {
	case store.KindEvents:
		value, key, err = codec.SealEvents(s.keys, value)
	case store.KindNamespace:
		value, err = codec.SealNamespace(s.keys, r.Key, value)
		key = codec.NamespaceSealedBy(value)
	case store.KindIntent:
		of, head, bad := partition.IntentSpec(value)
		if bad != nil {
			s.note(0, bad)
			return
		}
		var spec []byte
		spec, err = codec.SealSpec(s.keys, of, value[head:])
		value, key = slices.Concat(value[:head], spec), codec.SpecSealedBy(spec)
	}
	s.note(key, err)
	r.Value = value
}

// open decrypts the records of a page, which is the caller's.
func (b *Box) open(page []store.Record) []store.Record {
	for i := range page {
		r := &page[i]
		if r.Spec != nil {
			r.Spec = codec.OpenSpec(b.keys, r.Key, r.Spec)
		}
		if err := codec.OpenState(b.keys, r.Key, &r.State); err != nil && !b.keep {
			codec.ExplainState(&r.State)
		}
	}
	return page
}

// openRuns is open for finished runs.
func (b *Box) openRuns(page []store.RunRecord) []store.RunRecord {
	for i := range page {
		if err := codec.OpenRun(b.keys, &page[i]); err != nil && !b.keep {
			codec.ExplainRun(&page[i])
		}
	}
	return page
}

// openMeta is open for metadata records.
func (b *Box) openMeta(page []store.MetaRecord) []store.MetaRecord {
	for i := range page {
		r := &page[i]
		switch r.Kind {
		case store.KindEvents:
			var err error
			if r.Value, err = codec.OpenEvents(b.keys, r.Value); err != nil && !b.keep {
				r.Value = codec.ExplainEvents(r.Value)
			}
		case store.KindNamespace:
			r.Value = codec.OpenNamespace(b.keys, r.Key, r.Value)
		case store.KindIntent:
			of, head, err := partition.IntentSpec(r.Value)
			if err != nil {
				continue // whoever decodes it finds that, too
			}
			r.Value = slices.Concat(r.Value[:head], codec.OpenSpec(b.keys, of, r.Value[head:]))
		}
	}
	return page
}

// Unopened is an error, which wraps [store.ErrSealed], if something of a record is encrypted still.
func Unopened(r *store.Record) error {
	return cmp.Or(codec.SpecOpened(r.Spec), codec.StateOpened(&r.State))
}

// UnopenedRun is [Unopened] for finished runs.
func UnopenedRun(r *store.RunRecord) error {
	return cmp.Or(codec.SpecOpened(r.Spec), codec.RunOpened(r))
}

// UnopenedMeta is [Unopened] for metadata records. The error may say that the record is damaged.
func UnopenedMeta(r *store.MetaRecord) error {
	switch r.Kind {
	case store.KindEvents:
		return codec.EventsOpened(r.Value)
	case store.KindNamespace:
		return codec.NamespaceOpened(r.Value)
	case store.KindIntent:
		_, head, err := partition.IntentSpec(r.Value)
		if err != nil {
			return err
		}
		return codec.SpecOpened(r.Value[head:])
	}
	return nil
}
