package store

import (
	"crypto/sha256"
	"fmt"
	"strconv"
	"strings"
)

// AuditEntry says who has done what: a metadata record (KindAudit) of the batch of what was done. Its key is
// that of [AuditKey].
type AuditEntry struct {
	Previous  []byte // hash of the entry before, see [AuditHash]; of the first one: empty
	Time      int64  // UTC ns
	Principal string
	Address   string
	Node      string
	Action    string
	Namespace string
	Resource  string
	Outcome   string
	Request   string
	Fields    []string
	LeftOut   uint64
}

// AuditChain says which entries of a chain are kept: a metadata record (KindAuditChain) whose key is the
// chain's name. Each partition adds to one chain at most; the others in it are closed.
//
//	1 …          First … Last
//	removed by   kept
//	retention
type AuditChain struct {
	First  uint64 // the oldest entry that is kept, or Last+1: none is
	Before []byte // the hash of the entry before it; empty: there was none
	Last   uint64 // the newest entry
	Hash   []byte // of it
	Time   int64  // of it, UTC ns
	Closed bool   // nothing is added any more
}

// AuditName is the name of the chain that a term of a partition begins first. Others that it begins have "_2"
// and so on behind it.
func AuditName(partition int, t Term) string {
	return fmt.Sprintf("%d-%d-%x", partition, t.Epoch, t.Nonce)
}

// AuditKey is the key of the n-th entry of a chain.
func AuditKey(chain string, n uint64) string { return fmt.Sprintf("%s/%016x", chain, n) }

// ParseAuditKey is the reverse; false: the key is none.
func ParseAuditKey(key string) (chain string, n uint64, ok bool) {
	chain, text, ok := strings.Cut(key, "/")
	if !ok || chain == "" || len(text) != 16 {
		return "", 0, false
	}
	n, err := strconv.ParseUint(text, 16, 64)
	return chain, n, err == nil && n > 0 && AuditKey(chain, n) == key
}

// AuditHash is the hash of an entry, of all its bytes with its place: as the bytes hold the hash of the entry
// before, it depends on all of them.
func AuditHash(key string, value []byte) []byte {
	h := sha256.New()
	_, _ = fmt.Fprintf(h, "carillon audit %d %s\n", len(key), key) // a hash takes all
	h.Write(value)
	return h.Sum(nil)
}
