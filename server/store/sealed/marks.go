package sealed

import (
	"encoding/binary"
	"fmt"
	"strconv"

	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/codec"
)

// A partition with encrypted records has a mark for each key that they may need: a metadata record of kind
// store.KindSeal, in the batch with the first of them. Its value is an encrypted text, by which another key
// of the same id is told apart.

// marked is what the text is bound to.
var marked = []byte("carillon key")

func markKey(id uint32) string { return fmt.Sprintf("%08x", id) }

// markOf makes the mark of a key. The text is of that key, unless another one has just become the primary.
func (b *Box) markOf(id uint32) (r store.MetaRecord, err error) {
	text, err := b.keys.Encrypt(binary.BigEndian.AppendUint32(nil, id), marked)
	if err != nil {
		return r, fmt.Errorf("encrypt: %w", err)
	}
	return store.MetaRecord{Kind: store.KindSeal, Key: markKey(id), Value: text}, nil
}

// Check is an error, [store.MissingKeys], if what [store.SealMarks] finds names keys that are not there.
func (b *Box) Check(marks []store.MetaRecord) error {
	_, err := b.known(marks)
	return err
}

// known returns the ids of the keys that marks are of.
func (b *Box) known(marks []store.MetaRecord) (ids []uint32, err error) {
	m := &store.MissingKeys{Any: true}
	var damaged error // what is missing matters more
	for i := range marks {
		r := &marks[i]
		n, err := strconv.ParseUint(r.Key, 16, 32)
		if id := uint32(n); err != nil || r.Key != markKey(id) {
			damaged = fmt.Errorf("%w: the mark of a key of encryption is called %.20q", store.ErrDamaged, r.Key)
			continue
		}
		id := uint32(n)
		by := codec.SealedBy(r.Value)
		if _, err := b.keys.Decrypt(r.Value, marked); !b.keys.Has(id) || err != nil && b.keys.Has(by) {
			m.IDs = append(m.IDs, r.Key)
		}
		ids = append(ids, id)
	}
	if m.IDs != nil {
		return nil, m
	}
	if damaged != nil {
		return nil, damaged
	}
	return ids, nil
}
