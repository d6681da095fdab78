package carillon

import (
	"context"
	"encoding/hex"
	"strconv"
	"strings"
	"time"
)

// AuditEntry says who has done what. The entries of a chain are numbered without a gap; each holds the hash
// of the one before.
type AuditEntry struct {
	Chain string
	Seq   uint64 // from 1
	Hash  string // of the entry with the hash of the one before it: SHA-256, in hex

	Time      time.Time // when it was recorded; it never decreases within a chain
	Principal string    // "key ID", "oidc ISSUER SUBJECT", "certificate NAME", …, or "anonymous"
	Address   string    // host:port at which the caller was seen
	Node      string    // that was asked
	Action    string    // the rpc, such as "PutJob"
	Namespace string    // empty: it is about none
	// Resource is the name of a job, calendar or queue, the prefix of names, or the id of a run, backfill,
	// payload, key or node.
	Resource  string
	Outcome   string   // [AuditOK], [AuditBegun], [AuditUnknown], or the kind of the error
	RequestID string   // id of the command, or of the trace of the call; empty: it has none
	Fields    []string // names of the fields that the call has set, in order; never their values
	LeftOut   uint64   // failed calls before this one that the node has left out, as there were too many
}

// Outcomes of calls. Another one is the kind of the error, such as "permission_denied".
const (
	AuditOK = "ok"
	// AuditBegun is recorded before a call that changes several partitions; another entry tells its outcome.
	AuditBegun = "begun"
	// AuditUnknown says that the change may have been made or not; if it was, an entry with [AuditOK] says so.
	AuditUnknown = "unknown"
)

// AuditQuery selects entries of all chains. Empty fields select everything.
type AuditQuery struct {
	Namespace string
	Principal string // all of it, or its beginning followed by "*"
	Action    string
	Outcome   string
	Since     time.Time // inclusive
	Until     time.Time // exclusive
	PageSize  int       // default 100, at most [MaxBatch]
	PageToken string
}

// AuditPage is a page of entries, newest first.
type AuditPage struct {
	Entries       []AuditEntry
	NextPageToken string
}

// AuditHead names an entry of a chain by its hash. Its text is "CHAIN:SEQ:HASH".
type AuditHead struct {
	Chain string
	Seq   uint64
	Hash  string
}

// String is the head as ParseAuditHead reads it.
func (h AuditHead) String() string {
	return h.Chain + ":" + strconv.FormatUint(h.Seq, 10) + ":" + h.Hash
}

// ParseAuditHead reads a head.
func ParseAuditHead(text string) (AuditHead, error) {
	parts := strings.Split(text, ":")
	if len(parts) == 3 {
		seq, err := strconv.ParseUint(parts[1], 10, 64)
		hash, bad := hex.DecodeString(parts[2])
		if err == nil && bad == nil && seq > 0 && len(hash) == 32 && parts[0] != "" && len(parts[0]) <= 128 {
			return AuditHead{Chain: parts[0], Seq: seq, Hash: strings.ToLower(parts[2])}, nil
		}
	}
	return AuditHead{}, invalid("heads", "%q is no head; one is CHAIN:SEQ:HASH, as audit verify shows it", clip(text))
}

// AuditChain is what a verification has found of a chain.
type AuditChain struct {
	AuditHead        // the newest entry
	Partition int    // that has it
	First     uint64 // the oldest entry that is kept; greater than the head's number: none is
	Entries   uint64 // that were read
	Closed    bool   // nothing is added any more: it is of a store with another number of partitions
	Broken    string // the first thing that is wrong; empty: nothing is
	BrokenAt  uint64 // the number of the entry that is wrong; 0: it is none, or the head
}

// MaxAuditHeads is the most heads of one verification.
const MaxAuditHeads = 10_000

// Audit reads what was recorded of calls. Package client implements it.
type Audit interface {
	ListAudit(ctx context.Context, q AuditQuery) (AuditPage, error)
	// VerifyAudit reads all chains, and compares them with heads that were noted earlier. What is wrong stands
	// in the chains; the error is about the call.
	VerifyAudit(ctx context.Context, heads []AuditHead) ([]AuditChain, error)
}

// Validate returns an error about the first wrong field.
func (q *AuditQuery) Validate() error {
	if q.Namespace != "" {
		if err := ValidateNamespace(q.Namespace); err != nil {
			return err
		}
	}
	if !q.Since.IsZero() && !q.Until.IsZero() && !q.Since.Before(q.Until) {
		return invalid("until", "%s is not after since", q.Until.UTC().Format(time.RFC3339))
	}
	for _, f := range []struct{ name, value string }{{"principal", q.Principal}, {"action", q.Action},
		{"outcome", q.Outcome}} {
		if err := checkPrintable(f.name, f.value, maxAuditFilter); err != nil {
			return err
		}
	}
	return checkNumber("page_size", q.PageSize, 0, MaxBatch)
}

const maxAuditFilter = 1 << 10 // bytes
