package audit

import (
	"context"
	"sync/atomic"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/store"
)

// Call is a call of which an entry is to be recorded with what it changes. It travels in the context, also to
// the owner of the partition.
type Call struct {
	entry  store.AuditEntry
	stored atomic.Bool
}

// NewCall makes a call; the entry says who makes it, and what it is about.
func NewCall(e *store.AuditEntry) *Call { return &Call{entry: *e} }

// Entry returns the entry, whose time the partition sets.
func (c *Call) Entry() store.AuditEntry { return c.entry }

// Named sets the resource if it has none: its name is known only when the call is made. Nobody else may use
// the call yet.
func (c *Call) Named(resource string) {
	if c != nil && c.entry.Resource == "" {
		c.entry.Resource = resource
	}
}

// Stored says that the entry is durable, with the change.
func (c *Call) Stored() {
	if c != nil {
		c.stored.Store(true)
	}
}

// IsStored reports whether the entry is durable.
func (c *Call) IsStored() bool { return c.stored.Load() }

type contextKey struct{}

// With returns ctx with a call; nil: nothing is recorded of what is done in ctx.
func With(ctx context.Context, c *Call) context.Context {
	return context.WithValue(ctx, contextKey{}, c)
}

// From returns the call of a context; nil: nothing is to be recorded.
func From(ctx context.Context) *Call {
	c, _ := ctx.Value(contextKey{}).(*Call)
	return c
}

// OfCommand is the call of a command: c says who gives it. Nil: c is, or the command is none of an audit, as
// a result of a run.
func (c *Call) OfCommand(m *message.Command) *Call {
	if c == nil || m.Complete != nil {
		return nil
	}
	e := c.entry
	e.Namespace, e.Resource, e.Request, e.Outcome = m.Key.Namespace, m.Key.Name, m.Request, carillon.AuditOK
	if m.Refusal != nil {
		e.Outcome = m.Refusal.Kind.String()
	}
	switch {
	case m.Job != nil:
		e.Action = "PutJob"
	case m.Trigger != nil:
		e.Action = "TriggerJob"
	default:
		e.Action = "DeleteJob"
	}
	return NewCall(&e)
}
