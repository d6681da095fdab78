package daprmove

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/protobuf/proto"

	"github.com/carillonhq/carillon"
	cronpb "github.com/carillonhq/carillon/api/dapr/proto/cron/v1"
	"github.com/carillonhq/carillon/server/internal/daprrecord"
)

// History is what a state tells of how it came about. An etcd has no id of its own: those that are begun with
// the same flags call their cluster and its members by the same numbers. But two states of one etcd have one
// history: what the later has from before the earlier's revision, the earlier has as well.
type History struct {
	Revision int64 `json:"revision"`
	// Until is up to which revision of their creation all records are in Records.
	Until   int64   `json:"until"`
	Records []trace `json:"records"` // in the order of their creation
	// Samples are some of all records, where not all are in Records: those whose values have the smallest
	// hashes. The oldest are the first to be gone from a later state, of these some are likely to be in it.
	Samples []trace `json:"samples,omitempty"`
	// Clock is a time that had passed at Revision, in seconds since 1970; 0: none is known.
	Clock int64 `json:"clock"`
}

// trace is a job's record.
type trace struct {
	Key      uint64 `json:"k"`           // a hash
	Value    uint64 `json:"v"`           // likewise; the value has a random number in it
	Created  int64  `json:"c"`           // the revision
	Modified int64  `json:"m"`           // likewise
	Clock    int64  `json:"t,omitempty"` // when it was written, in seconds since 1970; 0: unknown
}

// kinship is what two histories have to do with each other.
type kinship int

// The kinships.
const (
	unknown kinship = iota
	same            // they are of one scheduler
	other           // they are of two
)

// clockSlack is by how much clocks of one scheduler's members may differ.
const clockSlack = int64(time.Hour / time.Second)

// tracesOfMark is how many traces a mark keeps of the oldest records, and how many samples.
const tracesOfMark = 150

// historyOf returns the history of what is stored at a revision that all members have agreed on.
func historyOf(revision int64, pairs []*mvccpb.KeyValue) History {
	h := History{Revision: revision, Until: revision}
	for _, p := range pairs {
		key := string(p.GetKey())
		if strings.HasPrefix(key, daprrecord.CounterPrefix) {
			var c cronpb.Counter
			if proto.Unmarshal(p.GetValue(), &c) == nil && c.LastTrigger != nil {
				h.Clock = max(h.Clock, c.GetLastTrigger().GetSeconds())
			}
		}
		if !strings.HasPrefix(key, daprrecord.JobPrefix) {
			continue
		}
		var j cronpb.StoredJob
		t := trace{hash(p.GetKey()), hash(p.GetValue()), p.GetCreateRevision(), p.GetModRevision(), 0}
		if proto.Unmarshal(p.GetValue(), &j) == nil { // another one is known by its bytes alone
			t.Clock = j.GetStart().GetSeconds()
		}
		h.Clock = max(h.Clock, t.Clock)
		h.Records = append(h.Records, t)
	}
	slices.SortFunc(h.Records, func(a, b trace) int {
		return cmp.Or(cmp.Compare(a.Created, b.Created), cmp.Compare(a.Key, b.Key))
	})
	return h
}

func hash(b []byte) uint64 {
	sum := sha256.Sum256(b)
	return binary.BigEndian.Uint64(sum[:])
}

// sample returns the history with n of its oldest records at most, and as many samples of all. Records that
// were created at one revision stay together.
func (h History) sample(n int) History {
	if len(h.Records) <= n {
		return h
	}
	byValue := slices.Clone(h.Records)
	slices.SortFunc(byValue, func(a, b trace) int { return cmp.Compare(a.Value, b.Value) })
	h.Samples = slices.Clone(byValue[:n])
	h.Until = h.Records[n].Created - 1
	end, _ := slices.BinarySearchFunc(h.Records, h.Until+1, func(t trace, rev int64) int {
		return cmp.Compare(t.Created, rev)
	})
	h.Records = slices.Clone(h.Records[:end])
	return h
}

// kinOf compares two histories of etcds that have the same id. A record that both have is proof that they are
// of one, whatever its revisions: one may have been restored from a copy, or made again from a file.
func (h History) kinOf(o History) kinship {
	if h.shares(o) {
		return same
	}
	early, late := h, o
	if early.Revision > late.Revision {
		early, late = late, early
	}
	verdict := early.precedes(late)
	if early.Revision == late.Revision && verdict != other {
		verdict = max(verdict, late.precedes(early))
	}
	return verdict
}

// shares reports whether there is a record that both histories have. Its value has a random number in it, so
// there are no two that are equal by chance.
func (h History) shares(o History) bool {
	type record struct{ key, value uint64 }
	mine := make(map[record]bool, len(h.Records)+len(h.Samples))
	for _, t := range slices.Concat(h.Records, h.Samples) {
		mine[record{t.Key, t.Value}] = true
	}
	return slices.ContainsFunc(slices.Concat(o.Records, o.Samples),
		func(t trace) bool { return mine[record{t.Key, t.Value}] })
}

// precedes compares a history with a later one: it must have all that the later one has from before its own
// revision.
func (h History) precedes(late History) kinship {
	verdict := unknown
	mine := make(map[uint64]trace, len(h.Records))
	for _, t := range h.Records {
		mine[t.Key] = t
	}
	for _, t := range late.Records {
		if t.Created > min(h.Revision, h.Until) {
			continue
		}
		m, found := mine[t.Key]
		switch {
		case !found, m.Created != t.Created:
			return other
		case t.Modified > h.Revision: // it was put again since
		case m.Modified != t.Modified, m.Value != t.Value:
			return other
		default:
			verdict = same
		}
	}
	if verdict == unknown && slices.ContainsFunc(late.Records, h.isPast) {
		return other
	}
	return verdict
}

// isPast reports whether a record of a later history was written before this one's last, which cannot be
// in one scheduler.
func (h History) isPast(late trace) bool {
	return late.Modified > h.Revision && late.Clock != 0 && late.Clock+clockSlack < h.Clock
}

// named calls claim with the name under which the mark of the state is or has to be, and again if that of
// another scheduler has taken the name in between.
func (s *State) named(ctx context.Context, jobs carillon.Jobs, claim func(id string) error) error {
	id, err := s.place(ctx, jobs)
	for err == nil {
		claimed := claim(id)
		if !errors.Is(claimed, ErrOtherState) {
			return claimed
		}
		before := id
		if id, err = s.place(ctx, jobs); err == nil && id == before {
			return claimed
		}
	}
	return err
}

// place returns the name of the state's mark: that of its etcd, with a number if other schedulers whose etcds
// have the same id have come in. It is that of a mark that is there if that is of the same scheduler, or may
// be and has not ended: what that holds has never fired, and can be taken back.
func (s *State) place(ctx context.Context, jobs carillon.Jobs) (id string, err error) {
	if s.Cluster == "" {
		return s.ID, nil
	}
	marks, err := marksOf(ctx, jobs, s.Cluster)
	if err != nil {
		return "", err
	}
	mine, doubtful := "", ""
	for _, id := range slices.Sorted(maps.Keys(marks)) {
		m := marks[id]
		switch {
		case m.State == s.ID:
			return id, nil
		case s.owns(&m):
			mine = cmp.Or(mine, id)
		case s.kinOf(&m) == unknown:
			doubtful = cmp.Or(doubtful, id)
		}
	}
	switch {
	case mine != "":
		return mine, nil
	case doubtful != "":
		return "", fmt.Errorf("%w, or of another one with the same flags, from %s: nothing that is stored tells which; if "+
			"it is of another one, delete the job %s%s, and do not import that again", ErrOtherState, marks[doubtful].Origin,
			MarkPrefix, doubtful)
	}
	id = s.Cluster
	for n := 2; marks[id].State != ""; n++ {
		id = s.Cluster + "-" + strconv.Itoa(n)
	}
	return id, nil
}

// owns reports whether a mark of a scheduler whose etcd has the same id is the state's to go on with.
func (s *State) owns(m *mark) bool {
	kin := s.kinOf(m)
	return m.State == s.ID || kin == same || kin == unknown && m.Phase != done
}

// kinOf compares the state with that of a mark.
func (s *State) kinOf(m *mark) kinship {
	if s.History.Revision == 0 || m.History.Revision == 0 {
		return same // one of them has no history: nothing but the id of the etcd counts
	}
	return s.History.kinOf(m.History)
}

// marksOf returns the marks of all schedulers whose etcds have an id, by what follows the prefix.
func marksOf(ctx context.Context, jobs carillon.Jobs, cluster string) (map[string]mark, error) {
	marks := map[string]mark{}
	q := carillon.JobQuery{Namespace: carillon.DefaultNamespace, Prefix: MarkPrefix + cluster, PageSize: page}
	for {
		got, err := listOnce(ctx, jobs, q)
		switch {
		case passing(err):
			if err := sleep(ctx, askEvery); err != nil {
				return nil, err
			}
			continue
		case err != nil:
			return nil, err
		}
		for i := range got.Jobs {
			id := strings.TrimPrefix(got.Jobs[i].Name, MarkPrefix)
			if id != cluster && !strings.HasPrefix(id, cluster+"-") {
				continue
			}
			m, err := markOf(&got.Jobs[i])
			if err != nil {
				return nil, err
			}
			marks[id] = m
		}
		if q.PageToken = got.NextPageToken; q.PageToken == "" {
			return marks, nil
		}
	}
}

func listOnce(ctx context.Context, jobs carillon.Jobs, q carillon.JobQuery) (carillon.JobPage, error) {
	ctx, cancel := context.WithTimeout(ctx, callFor)
	defer cancel()
	return jobs.ListJobs(ctx, q)
}
