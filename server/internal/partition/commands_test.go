package partition

import (
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/store"
)

func TestACommandIsRememberedUntilItIsForgotten(t *testing.T) {
	out := &builder{seq: 1}
	c := newCommands(out)
	id := message.CommandID{Key: carillon.Key{Namespace: "default", Name: "a/b"}, Request: "r1"}
	again := func(c *Commands, now int64) bool {
		before, err := c.again(now, id)
		if err != nil {
			t.Error(err)
		}
		return before
	}
	if again(c, 5) {
		t.Fatal("a command that never came is done")
	}
	c.add(5, id, 0)
	if !again(c, 6) || len(out.small) != 1 {
		t.Fatalf("the command is in %d records of one batch, want 1", len(out.small))
	}
	out.seq, out.after = 2, 0
	if !again(c, 7) || len(out.small) != 2 || out.after != 2 {
		t.Fatalf("a repeated command wrote %d records and waits for batch %d; want 2 and 2",
			len(out.small), out.after)
	}
	if got, err := CommandOf(&out.small[0]); err != nil || got != id {
		t.Fatalf("the record says %+v, %v", got, err)
	}
	loaded := newCommands(&builder{seq: 1})
	loaded.load(out.small[:1], 8)
	if !again(loaded, 8) || loaded.Len() != 1 {
		t.Fatal("a takeover has forgotten the command")
	}
	loaded.out.small = nil
	loaded.Forget([]message.CommandID{id, id, {Key: id.Key, Request: "other"}})
	if got := loaded.out.small; again(loaded, 9) || len(got) != 1 || got[0].Kind != store.KindCommand ||
		got[0].Value != nil {
		t.Fatalf("forgetting it wrote %v", got)
	}
}

// TestACommandIsDoneOrRefused: never both, whatever comes first, and a refusal survives a takeover.
func TestACommandIsDoneOrRefused(t *testing.T) {
	once := func(id message.CommandID) Once { return Once{Request: id.Request} }
	out := &builder{seq: 1}
	c := newCommands(out)
	id := message.CommandID{Key: carillon.Key{Namespace: "default", Name: "a"}, Request: "r1"}
	why := carillon.Errorf(carillon.FailedPrecondition, "except[0]", "there is no\x00 calendar \xff")
	if before, err := c.Refuse(5, once(id), id.Key, why); before || err != nil {
		t.Fatal(before, err)
	}
	if r := &out.small[0]; r.Kind != store.KindCommand || CheckMeta(r) != nil {
		t.Fatalf("the record is %+v: %v", r, CheckMeta(r))
	}
	loaded := newCommands(&builder{seq: 1})
	loaded.load(out.small, 6)
	const says = "failed_precondition: except[0]: there is no calendar ?"
	for name, of := range map[string]*Commands{"at first": c, "after a takeover": loaded} {
		if before, err := of.again(6, id); before || err == nil || err.Error() != says {
			t.Errorf("%s: done %v, %v; want %q", name, before, err, says)
		}
		if before, err := of.Refuse(7, once(id), id.Key, carillon.Errorf(carillon.InvalidArgument, "", "other")); before ||
			err == nil || err.Error() != says {
			t.Errorf("%s, refused again: done %v, %v; want %q", name, before, err, says)
		}
	}
	done := message.CommandID{Key: id.Key, Request: "r2"}
	c.add(8, done, 0)
	if before, err := c.Refuse(9, once(done), done.Key, why); !before || err != nil {
		t.Errorf("what is done is refused: %v, %v", before, err)
	}
}

// TestACommandIsForgottenWhenItsTimeIsOver, by whoever owns the partition then, but not soon after a takeover;
// and one that is kept until it is forgotten stays.
func TestACommandIsForgottenWhenItsTimeIsOver(t *testing.T) {
	key := carillon.Key{Namespace: "default", Name: "a"}
	id := func(request string) message.CommandID { return message.CommandID{Key: key, Request: request} }
	out := &builder{seq: 1}
	c := newCommands(out)
	now := int64(1_000_000) * int64(time.Second)
	c.add(now, id("ever"), 0)
	c.add(now, id("long"), 2*time.Hour)
	c.add(now, id("short"), time.Hour)
	out.seq++
	again := func(c *Commands, now int64, request string) bool {
		before, err := c.again(now, id(request))
		if err != nil {
			t.Error(err)
		}
		return before
	}
	if !again(c, now+5, "short") {
		t.Fatal("a command that comes again is done again")
	}
	next := newCommands(&builder{seq: 1})
	taken := now + int64(time.Hour)
	next.load(out.small, taken)
	next.Sweep(taken + commandGrace - 1)
	if next.Len() != 3 {
		t.Fatalf("soon after a takeover %d are remembered, not 3", next.Len())
	}
	next.Sweep(taken + commandGrace)
	if next.Len() != 2 || again(next, taken, "short") {
		t.Fatalf("%d are remembered after an hour, not 2", next.Len())
	}
	if small := next.out.small; len(small) != 1 || small[0].Value != nil || small[0].Key != commandKey(id("short")) {
		t.Fatalf("an expiry wrote %v", small)
	}
	next.add(now+int64(3*time.Hour), id("new"), time.Hour)
	if again(next, taken, "long") || !again(next, taken, "ever") || next.Len() != 2 {
		t.Fatalf("another command leaves %d, not 2", next.Len())
	}
}

func TestRecordsOfCommandsAreChecked(t *testing.T) {
	for name, r := range map[string]store.MetaRecord{
		"no request":    {Key: "default\x00a\x00", Value: []byte{2}},
		"no parts":      {Key: "default", Value: []byte{2}},
		"too many":      {Key: "a\x00b\x00c\x00d", Value: []byte{2}},
		"without value": {Key: "default\x00a\x00r"},
		"no until":      {Key: "default\x00a\x00r", Value: []byte{2}},
		"half refusal":  {Key: "default\x00a\x00r", Value: []byte("\x02\x00internal\x00field")},
		"bad until":     {Key: "default\x00a\x00r", Value: []byte{2, 0x80}},
		"until before":  {Key: "default\x00a\x00r", Value: []byte{2, 1}},
	} {
		r.Kind = store.KindCommand
		if err := CheckMeta(&r); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
