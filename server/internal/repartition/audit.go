package repartition

import (
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/codec"
)

// closeChain closes a chain of audit entries: each partition of the new store begins one of its own, and the
// chains of before stay as they are, so that what was noted of them still holds. Entries are not changed.
func closeChain(r *store.MetaRecord) error {
	if r.Kind != store.KindAuditChain {
		return nil
	}
	c, err := codec.DecodeAuditChain(r.Value)
	if err != nil {
		return err
	}
	c.Closed = true
	r.Value = codec.AppendAuditChain(nil, &c)
	return nil
}
