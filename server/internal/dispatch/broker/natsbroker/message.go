package natsbroker

import (
	"cmp"

	"github.com/nats-io/nats.go"

	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/dispatch/broker"
)

// natsMessage maps a message to the wire: CloudEvents' binding for NATS, whose headers are those of HTTP.
func natsMessage(m *broker.Message) *nats.Msg {
	h := make(nats.Header, len(m.Headers)+2)
	for _, header := range m.Headers {
		h[header.Name] = []string{delivery.HeaderValue(header.Value)}
	}
	if m.ContentType != "" {
		h["content-type"] = []string{m.ContentType}
	}
	h[nats.MsgIdHdr] = []string{cmp.Or(m.Once, m.ID)}
	return &nats.Msg{Subject: m.To.NATS.Subject, Header: h, Data: m.Data}
}
