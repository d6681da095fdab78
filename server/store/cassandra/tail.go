package cassandra

import (
	"context"
	"errors"
	"math"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/carillonhq/carillon/server/store"
)

// tail is the static columns of a segment. They stay for [keptFor] after its rows were deleted: an owner that
// was halted since before the segment was begun must not begin it a second time.
type tail struct {
	segment int
	exists  bool
	term    store.Term // in force, if it is the last segment; its nonce is 0 if nobody's is
	start   int64      // the number of the last batch before this segment
	last    int64      // the number of its last batch
	next    int        // the segment that goes on; 0: it is the last one
}

// droppedStart is the start of a segment whose rows have gone.
const droppedStart = math.MaxInt64

func (t *tail) dropped() bool { return t.start == droppedStart }

// errBroken: a segment says that another goes on, which is not there.
var errBroken = errors.New("the segment that goes on is missing")

// readTail reads what a segment says of itself, with its settings if they are asked for.
func (r *replica) readTail(ctx context.Context, level gocql.Consistency, segment int,
	settings ...*map[string][]byte) (tail, error) {
	t, more := tail{segment: segment}, ""
	if len(settings) > 0 {
		more = ", settings"
	}
	s := statement{`SELECT DISTINCT partition, segment, epoch, nonce, start, last, next` + more + ` FROM $changes ` +
		`WHERE partition = ? AND segment = ?`, []any{r.number, segment}}
	err := r.s.wire.each(ctx, level, s, nil, func(scan func(...any) error) error {
		return t.scan(scan, settings)
	})
	return t, err
}

func (t *tail) scan(scan func(...any) error, settings []*map[string][]byte) error {
	var partition int
	var epoch, nonce, start, last *int64
	var next *int
	into := []any{&partition, &t.segment, &epoch, &nonce, &start, &last, &next}
	for _, m := range settings {
		into = append(into, m)
	}
	if err := scan(into...); err != nil {
		return err
	}
	if epoch == nil || nonce == nil || start == nil || last == nil {
		return nil // nobody has begun it
	}
	t.exists, t.term = true, store.Term{Epoch: uint64(*epoch), Nonce: uint64(*nonce)}
	t.start, t.last, t.next = *start, *last, 0
	if next != nil {
		t.next = *next
	}
	return nil
}

// firstOf returns the first segment of the partition's log; 0: nobody has ever claimed it.
func (r *replica) firstOf(ctx context.Context) (first int, err error) {
	err = r.s.wire.each(ctx, r.s.wire.levels.regular,
		statement{`SELECT first FROM $owners WHERE cluster = 0 AND partition = ?`, []any{r.number}}, nil,
		func(scan func(...any) error) error { return scan(&first) })
	return first, err
}

// findTail returns what the last segment says, with its settings if they are asked for. It begins at the last
// one that is known, or else at the first. It does not exist if nobody has written to the partition.
func (r *replica) findTail(ctx context.Context, settings ...*map[string][]byte) (t tail, err error) {
	segment := int(r.hint.Load())
	for begun := 0; ; {
		first := segment == 0
		if first {
			if begun++; begun > mostTries {
				return t, r.damaged(t.segment, 0, errBroken)
			}
			if segment, err = r.firstOf(ctx); err != nil || segment == 0 {
				return tail{}, err
			}
		}
		if t, err = r.readTail(ctx, r.s.wire.levels.regular, segment, settings...); err != nil {
			return t, err
		}
		switch {
		case !t.exists && first:
			return t, nil
		case !t.exists: // it was deleted long ago
			segment = 0
		case t.next == 0:
			r.hint.Store(int64(segment))
			return t, nil
		default:
			segment = t.next
		}
	}
}
