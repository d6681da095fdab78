package message

import (
	"context"

	"github.com/carillonhq/carillon/server/store"
)

// RecordAudit records an audit entry in the partition, which sets its time.
type RecordAudit struct{ Entry store.AuditEntry }

func (RecordAudit) message()         {}
func (RecordAudit) replies(struct{}) {}
func (RecordAudit) once()            {}

type giverKey struct{}

// WithGiver returns ctx for calls and commands of somebody who has no credential of --auth: "ingest NAME",
// "outbox NAME", or the program around an embedded scheduler.
func WithGiver(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, giverKey{}, name)
}

// Giver returns who gives the calls and commands of a context; empty: whoever its credential says.
func Giver(ctx context.Context) string {
	name, _ := ctx.Value(giverKey{}).(string)
	return name
}
