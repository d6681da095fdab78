package brokertarget

import (
	"strconv"
	"strings"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/dispatch/broker"
)

// newMessage returns the message of a delivery, with these bytes as its payload.
func newMessage(d *delivery.Delivery, data []byte) broker.Message {
	r := d.Run
	m := broker.Message{To: d.Target, ID: r.ID, ContentType: r.Data.ContentType, Data: data}
	if k := d.Target.Kafka; k != nil && k.Key == "" {
		keyed := *k
		keyed.Key = r.Job // so that the runs of a job stay in order
		m.To.Kafka = &keyed
	}
	m.Headers = make([]broker.Header, 0, ownHeaders)
	set := func(name, value string) { m.Headers = append(m.Headers, broker.Header{Name: name, Value: value}) }
	scheduled := r.Scheduled.UTC().Format(time.RFC3339Nano)
	if !delivery.IsEvent(r.Data.ContentType) {
		set("ce-specversion", "1.0")
		set("ce-id", r.ID)
		set("ce-source", delivery.EventSource(r))
		set("ce-type", delivery.EventType)
		set("ce-subject", r.Job)
		set("ce-time", scheduled)
	}
	set("idempotency-key", r.ID)
	set("carillon-job", r.Namespace+"/"+r.Job)
	set("carillon-scheduled-time", scheduled)
	set("carillon-attempt", strconv.Itoa(r.Attempt))
	set("carillon-deadline", r.Deadline.UTC().Format(time.RFC3339Nano))
	set("carillon-token", r.Token)
	if d.Target.AwaitsCompletion() {
		set("carillon-await-completion", "true")
		m.Once = r.Token
	}
	if d.StoreAway {
		set("carillon-store", delivery.StoreIsAway)
	}
	trace := d.TraceContext()
	set("traceparent", trace.Parent())
	if state := trace.State(); state != "" {
		set("tracestate", state)
	}
	return m
}

// ownHeaders is how many headers newMessage sets at most.
const ownHeaders = 16

// clipped cuts an error's message to what is kept of one.
func clipped(message string) string {
	return strings.ToValidUTF8(message[:min(len(message), carillon.MaxErrorBytes)], "")
}
