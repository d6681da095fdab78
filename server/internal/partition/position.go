package partition

import (
	"encoding/binary"
	"errors"

	"github.com/carillonhq/carillon/server/internal/pagetoken"
)

// Position says how far somebody has followed the events of a store: by partition, the number of the newest
// record (store.KindEvents) that is over.
type Position []uint64

// ErrPosition is the error of a text that is no position of events.
var ErrPosition = errors.New("this is not a position of events of this store")

func positions(macKey []byte) pagetoken.List {
	return pagetoken.List{Names: []string{"events"}, MACKey: macKey}
}

// Token encodes a position.
func (p Position) Token(macKey []byte) string {
	b := make([]byte, 0, 4*len(p))
	for _, n := range p {
		b = binary.AppendUvarint(b, n)
	}
	return positions(macKey).At(b)
}

// ParsePosition decodes a position. Its length is the number of partitions that the store had then.
func ParsePosition(token string, macKey []byte) (Position, error) {
	b, err := positions(macKey).Place(token)
	if err != nil || len(b) == 0 {
		return nil, ErrPosition
	}
	p := Position{}
	for len(b) > 0 {
		n, size := binary.Uvarint(b)
		if size <= 0 {
			return nil, ErrPosition
		}
		p, b = append(p, n), b[size:]
	}
	return p, nil
}
