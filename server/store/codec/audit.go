package codec

import "github.com/carillonhq/carillon/server/store"

// AppendAudit appends the entry's bytes to b.
func AppendAudit(b []byte, e *store.AuditEntry) []byte {
	c := coder{b: b, writing: true}
	auditEntry(&c, e)
	return c.b
}

// DecodeAudit decodes what AppendAudit wrote. Nothing aliases b.
func DecodeAudit(b []byte) (store.AuditEntry, error) {
	var e store.AuditEntry
	c := coder{b: b}
	if auditEntry(&c, &e); c.err != nil {
		return store.AuditEntry{}, damaged("audit entry", c.err)
	}
	return e, nil
}

func auditEntry(c *coder, e *store.AuditEntry) {
	for at := message(0); c.within(&at); {
		c.bytes(1, &e.Previous)
		c.nanos(2, &e.Time)
		c.string(3, &e.Principal)
		c.string(4, &e.Address)
		c.string(5, &e.Node)
		c.string(6, &e.Action)
		c.string(7, &e.Namespace)
		c.string(8, &e.Resource)
		c.string(9, &e.Outcome)
		c.string(10, &e.Request)
		c.strings(11, &e.Fields)
		unsigned(c, 12, &e.LeftOut)
	}
}

// AppendAuditChain appends the record's bytes to b.
func AppendAuditChain(b []byte, a *store.AuditChain) []byte {
	c := coder{b: b, writing: true}
	auditChain(&c, a)
	return c.b
}

// DecodeAuditChain decodes what AppendAuditChain wrote. Nothing aliases b.
func DecodeAuditChain(b []byte) (store.AuditChain, error) {
	var a store.AuditChain
	c := coder{b: b}
	if auditChain(&c, &a); c.err != nil {
		return store.AuditChain{}, damaged("audit chain", c.err)
	}
	return a, nil
}

func auditChain(c *coder, a *store.AuditChain) {
	for at := message(0); c.within(&at); {
		unsigned(c, 1, &a.First)
		c.bytes(2, &a.Before)
		unsigned(c, 3, &a.Last)
		c.bytes(4, &a.Hash)
		c.nanos(5, &a.Time)
		c.bool(6, &a.Closed)
	}
}
