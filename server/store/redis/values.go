package redis

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/codec"
	"github.com/carillonhq/carillon/server/store/ordered"
)

// A stored record is a head that says where it stands in the indexes, so that a script can take it out of
// them, and the state:
//
//	1 byte   length of its due entry: 0 or 9
//	2 bytes  length of its staged entry
//	1 byte   length of its live entry
//	1 byte   phase
//	         the entries: priority and due; queue, priority and run due; run
//	         the state, as store.State wrote it
//
// The members of the sorted sets are the entries followed by the ref.
const recordHead = 5

// appendRecord appends what is stored of a record but its spec.
func appendRecord(b []byte, partition int, s *store.State) ([]byte, error) {
	at := len(b)
	b = append(b, 0, 0, 0, 0, byte(s.Phase))
	from := len(b)
	if s.Due != 0 {
		b = ordered.AppendTime(append(b, s.Priority), s.Due)
	}
	b[at] = byte(len(b) - from)
	from = len(b)
	if s.Phase == carillon.PhaseStaged {
		b = appendStaged(b, s.Queue, s.Priority, s.Run.Due)
	}
	if len(b)-from > math.MaxUint16 {
		return nil, fmt.Errorf("store: the queue %.40q… is too long", s.Queue)
	}
	binary.BigEndian.PutUint16(b[at+1:], uint16(len(b)-from))
	from = len(b)
	if s.Run.Live {
		id := s.Identity(partition)
		b = appendRun(b, &id)
	}
	b[at+3] = byte(len(b) - from)
	return codec.AppendState(b, s), nil
}

// appendStaged appends a staged entry.
func appendStaged(b []byte, queue string, priority uint8, due int64) []byte {
	return ordered.AppendTime(append(ordered.AppendText(b, queue), priority), due)
}

// parseRecord reads what appendRecord wrote.
func parseRecord(v []byte) (store.State, error) {
	if len(v) < recordHead {
		return store.State{}, fmt.Errorf("%w: a record of %d bytes", store.ErrDamaged, len(v))
	}
	head := recordHead + int(v[0]) + int(binary.BigEndian.Uint16(v[1:])) + int(v[3])
	if len(v) < head {
		return store.State{}, fmt.Errorf("%w: a record of %d bytes", store.ErrDamaged, len(v))
	}
	return codec.DecodeState(v[head:])
}

// A stored run is a head like that of a record, and the run without its key:
//
//	1 byte   status; before format 3: 1 if it is dead, else 0
//	8 bytes  end of retention
//	8 bytes  finished, descending
//	2 bytes  length of its namespace below
//	2 bytes  length of its job's namespace and name
//	         namespace and name
//	         the run, as store.RunRecord wrote it
const runHead = 21

// appendRunRecord appends what is stored of a finished run.
func appendRunRecord(b []byte, r *store.RunRecord) ([]byte, error) {
	b = append(b, byte(r.Status))
	b = ordered.AppendTimeDesc(ordered.AppendTime(b, r.Expires), r.Finished)
	b = append(b, 0, 0, 0, 0)
	from := len(b)
	b = ordered.AppendText(b, r.Key.Namespace)
	namespace := len(b) - from
	b = ordered.AppendText(b, r.Key.Name)
	if len(b)-from > math.MaxUint16 {
		return nil, fmt.Errorf("store: the name %.40q… is too long", r.Key.Name)
	}
	binary.BigEndian.PutUint16(b[from-4:], uint16(namespace))
	binary.BigEndian.PutUint16(b[from-2:], uint16(len(b)-from))
	kept := *r
	kept.Key = carillon.Key{}
	return codec.AppendRun(b, &kept), nil
}

// parseRunRecord reads what appendRunRecord wrote.
func parseRunRecord(v []byte) (store.RunRecord, error) {
	if len(v) < runHead {
		return store.RunRecord{}, fmt.Errorf("%w: a run of %d bytes", store.ErrDamaged, len(v))
	}
	head := runHead + int(binary.BigEndian.Uint16(v[runHead-2:]))
	if len(v) < head {
		return store.RunRecord{}, fmt.Errorf("%w: a run of %d bytes", store.ErrDamaged, len(v))
	}
	r, err := codec.DecodeRun(v[head:])
	if err != nil {
		return store.RunRecord{}, err
	}
	c := ordered.Cutter{B: v[runHead:head]}
	r.Key = carillon.Key{Namespace: c.Text(), Name: c.Text()}
	if c.Bad {
		return store.RunRecord{}, fmt.Errorf("%w: a run without a job", store.ErrDamaged)
	}
	return r, nil
}
