package server

import (
	"context"
	"io"
	"strconv"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/cluster"
	"github.com/carillonhq/carillon/server/internal/payload"
)

// Payloads says where large payloads are kept. The zero value of a field is its default; Store has none.
type Payloads struct {
	// Store is file:DIR, a folder that all nodes share, or the URL of a bucket: "s3://…", "gs://…" or
	// "azblob://…". The program imports the package of that kind of bucket.
	Store string
	// Above is how many bytes of data stay with a job, in the store of the jobs; more are kept apart. Default
	// [DefaultPayloadAbove]; negative: none stay.
	Above int
	// Max is the most bytes of a payload that is kept apart. Default [carillon.DefaultStoredPayload].
	Max int64
}

// DefaultPayloadAbove is the default of [Payloads.Above].
const DefaultPayloadAbove = 64 << 10

// above is how many bytes of data stay with a job.
func (p *Payloads) above() int {
	switch {
	case p.Above < 0:
		return 0
	case p.Above == 0:
		return DefaultPayloadAbove
	}
	return p.Above
}

func (p *Payloads) validate() error {
	if p == nil {
		return nil
	}
	return payload.Options{URL: p.Store, Max: p.Max}.Check()
}

// settings are what all nodes of a store should have in common.
func (p *Payloads) settings() []cluster.Setting {
	if p == nil {
		return []cluster.Setting{{Name: "large payloads", Value: "stay with their jobs"}}
	}
	return []cluster.Setting{{Name: "large payloads", Value: "are kept apart"},
		{Name: "payload-store", Value: payload.Redact(p.Store), Must: true}, // what one node stores the others read
		{Name: "payload-above", Value: strconv.Itoa(p.above())},
		{Name: "max-stored-payload", Value: strconv.FormatInt(p.Max, 10)}}
}

// openPayloads opens the store of payloads, if there is to be one.
func (n *Node) openPayloads(ctx context.Context) (err error) {
	p := n.config.Payloads
	if p == nil {
		return nil
	}
	m := n.metrics
	n.payloads, err = payload.Open(ctx, payload.Options{
		URL: p.Store, Key: n.store.Meta().MACKey, Max: p.Max, Now: n.payloadNow, Log: n.config.Log,
		Encryption: n.sealer.streams(),
		Count:      payload.Counts{Put: m.PayloadPut, Got: m.PayloadGot, Collected: m.PayloadsCollected}})
	return err
}

// payloadNow is the clock by which payloads get their day, the same on all nodes.
func (n *Node) payloadNow() time.Time {
	if n.member != nil {
		return n.member.StoreNow()
	}
	return n.config.Now()
}

// edge is where the payloads of calls are looked at before the calls go on.
func (n *Node) edge() payload.Edge {
	e := payload.Edge{Store: n.payloads, Bounds: n.config.Limits}
	if p := n.config.Payloads; p != nil {
		e.Above = p.above()
	}
	return e
}

// keepPayloads collects payloads while the node is in charge, until ctx ends.
func (n *Node) keepPayloads(ctx context.Context) {
	if n.payloads != nil {
		n.payloads.Keep(ctx, n.engine.OwnsHome, n.sealer.records(n.store))
	}
}

// storedPayloads are the calls about payloads.
type storedPayloads struct {
	payloads *payload.Store // nil: they are refused
	records  payload.Records
}

// PutPayload implements [carillon.Payloads].
func (p storedPayloads) PutPayload(ctx context.Context, namespace string,
	r io.Reader) (carillon.PayloadRef, error) {
	return p.payloads.Put(ctx, payload.Namespace(namespace), r)
}

// GetPayload implements [carillon.Payloads].
func (p storedPayloads) GetPayload(ctx context.Context, namespace string,
	ref carillon.PayloadRef) (io.ReadCloser, error) {
	return p.payloads.Get(ctx, payload.Namespace(namespace), ref)
}

// CollectPayloads implements [carillon.Payloads].
func (p storedPayloads) CollectPayloads(ctx context.Context) (carillon.PayloadCollection, error) {
	return p.payloads.Collect(ctx, p.records)
}
