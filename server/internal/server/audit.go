package server

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	grpcpeer "google.golang.org/grpc/peer"

	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/carillon/v1"
	"github.com/carillonhq/carillon/internal/tracecontext"
	"github.com/carillonhq/carillon/internal/wire"
	"github.com/carillonhq/carillon/server/internal/access"
	"github.com/carillonhq/carillon/server/internal/audit"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/internal/partition"
	"github.com/carillonhq/carillon/server/store"
)

// What becomes of what calls change, in Audit.To.
const (
	AuditOff   = "off"   // it is not recorded
	AuditLog   = "log"   // it is logged
	AuditStore = "store" // it is recorded in the store, and logged
)

// Audit says how it is recorded who makes which calls. The zero value of a field is its default.
type Audit struct {
	// To is [AuditOff], [AuditLog] or [AuditStore]. Default: AuditLog if callers prove who they are, otherwise
	// AuditOff.
	To string
	// Keep is how long entries are kept in the store. Default 90 days.
	Keep time.Duration
	// Log gets the lines. Default: that of the node.
	Log *slog.Logger
}

// auditTo returns what becomes of what calls change.
func (c Config) auditTo() string {
	if c.Audit.To == "" && c.judged() {
		return AuditLog
	}
	return cmp.Or(c.Audit.To, AuditOff)
}

// validateAudit refuses settings that there are not.
func (c Config) validateAudit() error {
	switch to := c.Audit.To; {
	case to != "" && to != AuditOff && to != AuditLog && to != AuditStore:
		return fmt.Errorf("audit: %q is none; off, log and store are", to)
	case c.Audit.Keep < 0:
		return fmt.Errorf("audit_keep: %v is negative", c.Audit.Keep)
	case c.Audit.Keep > 0 && to != AuditStore:
		return fmt.Errorf("audit_keep: it is for entries in the store; say audit store, or leave it out")
	}
	return nil
}

// Bounds of what is recorded of calls that have failed: of the others there are as many as changes.
const (
	failuresASecond = 10
	failuresAtOnce  = 100
	// recordWithin is how long it may take to record that a call has ended.
	recordWithin = 10 * time.Second
	// closeWithin is how long it may take in all to record what is left when the node stops: the rest of what a
	// stop may take is for the engine.
	closeWithin = stopTimeout / 2
	// countEvery is how often it is recorded how many were left out, if no other entry says so.
	countEvery = time.Minute
	// longestName is how many bytes of a name an entry has.
	longestName = 512
)

// trail records who makes which calls. It implements [access.Auditor].
//
//	what succeeds in one partition    with the change, by its owner
//	what succeeds elsewhere           after it, before the answer
//	what spreads over partitions      before it that it begins, and after it
//	what fails or is refused          by a goroutine of its own, as far as there are not too many
type trail struct {
	node   *Node
	stores bool
	write  func(ctx context.Context, e *store.AuditEntry) error // into the store
	// Whoever was refused may be anybody: how many of them there are does not count for those who were let in.
	failed, refused failures
	life            context.Context // until close is called
	end             context.CancelFunc
	hard            context.Context // until it has taken too long
	cut             context.CancelFunc
	done            sync.WaitGroup

	leftOut atomic.Uint64
}

// failures are the entries that wait to be recorded by the goroutine, of which there are not too many.
type failures struct {
	waiting chan *store.AuditEntry

	mu   sync.Mutex
	room float64 // how many may be added now
	at   time.Time
}

func newFailures(now time.Time) failures {
	return failures{waiting: make(chan *store.AuditEntry, failuresAtOnce), room: failuresAtOnce, at: now}
}

// add adds an entry, unless there are too many.
func (f *failures) add(e *store.AuditEntry, now time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.room = min(failuresAtOnce, f.room+max(0, now.Sub(f.at).Seconds())*failuresASecond)
	f.at = now
	if f.room < 1 {
		return false
	}
	select {
	case f.waiting <- e:
		f.room--
		return true
	default:
		return false
	}
}

var _ access.Auditor = (*trail)(nil)

// keepTrail begins to record what calls change, if that is to be recorded.
func keepTrail(n *Node) {
	to := n.config.auditTo()
	if to == AuditOff {
		return
	}
	n.trail = newTrail(n, to == AuditStore, func(ctx context.Context, e *store.AuditEntry) error {
		_, err := message.Send(ctx, n.calls, partition.Home, message.RecordAudit{Entry: *e})
		return err
	})
}

func newTrail(n *Node, stores bool, write func(context.Context, *store.AuditEntry) error) *trail {
	now := n.config.Now()
	t := &trail{node: n, stores: stores, write: write, failed: newFailures(now), refused: newFailures(now)}
	t.life, t.end = context.WithCancel(context.Background())
	t.hard, t.cut = context.WithCancel(context.Background())
	t.done.Go(t.recordFailures)
	return t
}

// Auditor returns who records the calls of the node; nil: nobody does.
func (n *Node) Auditor() access.Auditor {
	if n.trail == nil {
		return nil
	}
	return n.trail
}

// close records what is left, until ctx ends or it has taken too long: the rest is in the log alone. Nil:
// there is nothing.
func (t *trail) close(ctx context.Context) {
	if t == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, closeWithin)
	defer cancel()
	defer context.AfterFunc(ctx, t.cut)()
	t.end()
	t.done.Wait()
	t.cut()
}

// clipped shortens what a caller has said.
func clipped(text string) string {
	if len(text) <= longestName {
		return text
	}
	return strings.ToValidUTF8(text[:longestName], "")
}

// entryOf returns the entry of a call.
func (t *trail) entryOf(ctx context.Context, s *access.Subject) *store.AuditEntry {
	e := &store.AuditEntry{Node: t.node.config.Name, Action: s.Action, Namespace: clipped(s.Namespace),
		Resource: clipped(s.Resource), Fields: s.Fields, Principal: "anonymous", Request: requestID(ctx)}
	if p := access.From(ctx); p != nil {
		e.Principal = clipped(p.String())
	}
	if p, ok := grpcpeer.FromContext(ctx); ok && p.Addr != nil {
		e.Address = clipped(p.Addr.String())
	}
	if giver := message.Giver(ctx); giver != "" {
		e.Principal = clipped(giver)
	}
	return e
}

// requestID returns the id of the trace that a call belongs to, or a new one.
func requestID(ctx context.Context) string {
	parent, _ := tracecontext.Of(ctx)
	if parts := strings.Split(parent, "-"); len(parts) == 4 {
		return parts[1]
	}
	var id [8]byte
	_, _ = rand.Read(id[:]) // it never fails
	return hex.EncodeToString(id[:])
}

// Begin implements [access.Auditor].
func (t *trail) Begin(ctx context.Context, method string, m any) (context.Context,
	func(any, error) error, error) {
	effect := access.EffectOf(method)
	if effect == access.Reads || effect == access.Works {
		return ctx, func(_ any, err error) error { return err }, nil
	}
	subject := access.SubjectOf(method, m)
	e := t.entryOf(ctx, &subject)
	spreads := effect == access.Spreads
	alone := func(reply any, err error) error { return t.ended(ctx, e, nil, spreads, reply, err) }
	if spreads {
		begun := *e
		begun.Outcome = carillon.AuditBegun
		if err := t.record(ctx, &begun); err != nil {
			return ctx, nil, carillon.Errorf(carillon.Unavailable, "", "nothing was done, as it cannot be recorded: %w",
				err)
		}
	}
	if spreads || !t.stores {
		return audit.With(ctx, nil), alone, nil
	}
	c := audit.NewCall(e)
	return audit.With(ctx, c), func(reply any, err error) error {
		return t.ended(ctx, e, c, false, reply, err)
	}, nil
}

// ended records how a call has ended, unless that is recorded with what it has changed. What was recorded as
// begun has its outcome recorded before its answer, also if it has failed: it may have changed something.
func (t *trail) ended(ctx context.Context, e *store.AuditEntry, c *audit.Call, begun bool, reply any,
	err error) error {
	if c != nil && c.IsStored() {
		return err
	}
	if e.Resource == "" && err == nil {
		e.Resource = clipped(answered(reply))
	}
	switch failure := wire.ToError(err); {
	case err == nil:
		e.Outcome = carillon.AuditOK
	case failure.Unknown:
		e.Outcome = carillon.AuditUnknown
	default:
		e.Outcome = failure.Kind.String()
		if !begun {
			t.fail(&t.failed, e)
			return err
		}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordWithin)
	defer cancel()
	if failed := t.record(ctx, e); failed != nil && err == nil {
		unknown := carillon.Errorf(carillon.Unavailable, "", "it is done, but could not be recorded: %w", failed)
		unknown.Unknown = true
		return unknown
	}
	return err
}

// answered returns the name or id that an answer has of what was made.
func answered(reply any) string {
	switch m := reply.(type) {
	case interface{ GetJob() *pb.Job }:
		return m.GetJob().GetName()
	case interface{ GetKey() *pb.AccessKey }:
		return m.GetKey().GetId()
	case interface{ GetPayload() string }:
		return m.GetPayload()
	}
	return ""
}

// Refused implements [access.Auditor].
func (t *trail) Refused(ctx context.Context, method string, m any, err error) {
	subject := access.SubjectOf(method, m)
	if method == "" {
		subject.Action = "HTTP"
		if field := wire.ToError(err).Field; field != "" {
			subject.Fields = []string{field} // the header for which it was refused
		}
	}
	e := t.entryOf(ctx, &subject)
	e.Outcome = wire.ToError(err).Kind.String()
	t.fail(&t.refused, e)
}

// fail has a failure recorded, if there are not too many.
func (t *trail) fail(among *failures, e *store.AuditEntry) {
	if !among.add(e, t.node.config.Now()) {
		t.leftOut.Add(1)
	}
}

// recordFailures records failures, and how many were left out, until the trail is closed.
func (t *trail) recordFailures() {
	count := time.NewTicker(countEvery)
	defer count.Stop()
	for {
		select {
		case e := <-t.failed.waiting:
			t.recordLate(e)
		case e := <-t.refused.waiting:
			t.recordLate(e)
		case <-count.C:
			t.recordLeftOut()
		case <-t.life.Done():
			for {
				select {
				case e := <-t.failed.waiting:
					t.recordLate(e)
				case e := <-t.refused.waiting:
					t.recordLate(e)
				default:
					t.recordLeftOut()
					return
				}
			}
		}
	}
}

// recordLeftOut records how many failures were left out, if there were any.
func (t *trail) recordLeftOut() {
	if t.leftOut.Load() > 0 {
		t.recordLate(&store.AuditEntry{Node: t.node.config.Name, Principal: "node " + t.node.config.Name,
			Action: "LeftOut", Outcome: carillon.AuditOK})
	}
}

// recordLate records a failure, and how many were left out before it. If the store does not take that, or it
// is not known whether it has, the next entry has their number, too: rather twice than never.
func (t *trail) recordLate(e *store.AuditEntry) {
	e.LeftOut = t.leftOut.Swap(0)
	ctx, cancel := context.WithTimeout(t.hard, recordWithin)
	defer cancel()
	if err := t.record(ctx, e); err != nil { // which has said so
		t.leftOut.Add(e.LeftOut)
	}
}

// record records an entry by itself. If the store does not take it, it is in the log.
func (t *trail) record(ctx context.Context, e *store.AuditEntry) error {
	if !t.stores {
		audit.Log(t.node.config.auditLog(), e)
		return nil
	}
	err := t.write(ctx, e)
	if err != nil {
		audit.Log(t.node.config.auditLog(), e, slog.Bool("stored", false))
		t.node.config.Log.Error("an audit entry was not stored", "action", e.Action, "error", err)
	}
	return err
}

// auditLog gets the lines.
func (c *Config) auditLog() *slog.Logger { return cmp.Or(c.Audit.Log, c.Log) }

// logRecorded returns what logs entries that are durable, with their hashes: a log that is kept elsewhere
// proves them.
func logRecorded(log *slog.Logger) func(key string, e *store.AuditEntry, hash []byte) {
	return func(key string, e *store.AuditEntry, hash []byte) {
		chain, n, _ := store.ParseAuditKey(key)
		audit.Log(log, e, slog.String("chain", chain), slog.Uint64("seq", n),
			slog.String("hash", hex.EncodeToString(hash)))
	}
}

// own returns ctx for a change that the node makes by itself, for somebody; done says that it is made.
func (t *trail) own(ctx context.Context, by, action, resource string) (_ context.Context, done func()) {
	if t == nil {
		return ctx, func() {}
	}
	e := t.entryOf(ctx, &access.Subject{Action: action, Resource: resource})
	e.Principal, e.Outcome = by, carillon.AuditOK
	if !t.stores {
		return ctx, func() { audit.Log(t.node.config.auditLog(), e) }
	}
	c := audit.NewCall(e)
	return audit.With(ctx, c), func() {
		if !c.IsStored() {
			_ = t.record(ctx, e) // which says so if it is not
		}
	}
}

// commands returns ctx for commands, which their partitions record with what they change; ended logs those
// that are done, if no partition does.
func (t *trail) commands(ctx context.Context) (_ context.Context, ended func(c *message.Command)) {
	if t == nil {
		return ctx, func(*message.Command) {}
	}
	by := audit.NewCall(t.entryOf(ctx, &access.Subject{}))
	if t.stores {
		return audit.With(ctx, by), func(*message.Command) {}
	}
	return ctx, func(c *message.Command) {
		if of := by.OfCommand(c); of != nil {
			e := of.Entry()
			audit.Log(t.node.config.auditLog(), &e)
		}
	}
}
