package audit

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/carillonhq/carillon/server/store"
)

// Log writes an entry as a line of a log: its message is "audit", its fields are in a group of that name;
// more are added to them.
func Log(log *slog.Logger, e *store.AuditEntry, more ...slog.Attr) {
	var all []slog.Attr
	add := func(name, value string) {
		if value != "" {
			all = append(all, slog.String(name, value))
		}
	}
	add("principal", e.Principal)
	add("address", e.Address)
	add("node", e.Node)
	add("action", e.Action)
	add("namespace", e.Namespace)
	add("resource", e.Resource)
	add("outcome", e.Outcome)
	add("request_id", e.Request)
	if len(e.Fields) > 0 {
		all = append(all, slog.Any("fields", e.Fields))
	}
	if e.LeftOut > 0 {
		all = append(all, slog.Uint64("left_out", e.LeftOut))
	}
	if e.Time != 0 {
		all = append(all, slog.Time("time", time.Unix(0, e.Time).UTC()))
	}
	log.LogAttrs(context.Background(), slog.LevelInfo, "audit",
		slog.Attr{Key: "audit", Value: slog.GroupValue(slices.Concat(all, more)...)})
}
