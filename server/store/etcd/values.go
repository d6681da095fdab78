package etcd

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/protobuf/proto"

	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/codec"
	"github.com/carillonhq/carillon/server/store/ordered"
)

// The value of a job or a pending run is
//
//	the length of the state as a varint, the state; if there is a spec: the byte 1, the spec
//
// with state and spec as package codec writes them: one key a job, so that a put is one operation, of which
// etcd takes 128 in a transaction. A spec is written again with every state; it is in memory anyway.

// recordValue is the value of a record.
func recordValue(r *store.Record) []byte {
	state := codec.AppendState(nil, &r.State)
	b := make([]byte, 0, len(state)+len(r.Spec)+4)
	b = append(ordered.AppendSeq(b, uint64(len(state))), state...)
	if r.Spec != nil {
		b = append(append(b, 1), r.Spec...)
	}
	return b
}

// parseRecord reads what recordValue has made.
func parseRecord(b []byte) (r store.Record, err error) {
	c := ordered.Cutter{B: b}
	state := c.Bytes(c.Seq())
	if len(c.B) > 0 {
		if c.Byte() != 1 {
			c.Bad = true
		}
		r.Spec = append([]byte{}, c.B...) // an empty spec is one, too
		c.B = nil
	}
	if err := c.End(); err != nil {
		return r, err
	}
	r.State, err = codec.DecodeState(state)
	return r, err
}

// lease is until when something is valid by the store's clock.
type lease struct {
	Until time.Time `json:"until,omitzero"`
	Given float64   `json:"given,omitempty"` // seconds that it was given for
}

// lasting is a lease of some time from now.
func lasting(now time.Time, ttl time.Duration) lease { return lease{now.Add(ttl).UTC(), ttl.Seconds()} }

// lasts reports whether the lease is valid. One that has longer to go than it was given for, by far, was
// given before the clock was set back.
func (l *lease) lasts(now time.Time) bool {
	return now.Before(l.Until) && l.Until.Sub(now).Seconds() < 2*l.Given
}

// ownerValue is who owns a partition, as people may read it.
type ownerValue struct {
	Epoch uint64 `json:"epoch"`
	Nonce uint64 `json:"nonce"`
	Node  string `json:"node,omitempty"`
	lease
}

func (v *ownerValue) term() store.Term { return store.Term{Epoch: v.Epoch, Nonce: v.Nonce} }

// memberValue is a member, as people may read it.
type memberValue struct {
	Address  string `json:"address"`
	HTTP     string `json:"http,omitempty"`
	Sidecars string `json:"sidecars,omitempty"`
	Capacity int    `json:"capacity"`
	Nonce    uint64 `json:"nonce"`
	Settings string `json:"settings,omitempty"`
	State    string `json:"state,omitempty"`
	lease
}

// storeValue is what a store was created with.
type storeValue struct {
	Format     int    `json:"format"`
	Partitions int    `json:"partitions"`
	Key        []byte `json:"key"` // the MAC key
}

// encode is a value as JSON. It cannot fail for the types above.
func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("store: etcd: %T: %v", v, err))
	}
	return b
}

// decode reads a value that encode has made.
func decode(key, b []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(b))
	if err := d.Decode(v); err != nil {
		return damaged(key, err)
	}
	return nil
}

// headValue is the term in force; of a partition that was released, nothing that is in force.
func headValue(t store.Term, released bool) []byte {
	if released {
		return fmt.Appendf(nil, "%d %d released", t.Epoch, t.Nonce)
	}
	return fmt.Appendf(nil, "%d %d", t.Epoch, t.Nonce)
}

// batchHead is the head that a batch writes under the term of a head: it names the batch, drawn, so that who
// has no answer can tell whether it is there.
func batchHead(head []byte) []byte {
	return fmt.Appendf(bytes.Clone(termOf(head)), " batch %x", rand.Uint64())
}

// termOf is a head without the name of its last batch.
func termOf(head []byte) []byte {
	term, _, _ := bytes.Cut(head, []byte(" batch "))
	return term
}

// commitValue is a batch of several parts that is committed.
type commitValue struct {
	ID    string `json:"id"`
	Parts int    `json:"parts"`
}

// partValue is the operations of a part, as etcd encodes them.
func partValue(ops []*pb.RequestOp) ([]byte, error) {
	return proto.Marshal(&pb.TxnRequest{Success: ops})
}

var errNoOps = errors.New("a part without operations")

// parsePart reads what partValue has made.
func parsePart(b []byte) ([]*pb.RequestOp, error) {
	var r pb.TxnRequest
	if err := proto.Unmarshal(b, &r); err != nil {
		return nil, err
	}
	if len(r.Success) == 0 {
		return nil, errNoOps
	}
	return r.Success, nil
}
