package partition

import (
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/store"
)

// onDependency makes the dependency of job b on job a.
func onDependency() message.Dependency {
	return message.Dependency{Of: carillon.Key{Namespace: "n", Name: "a"}, Name: "b"}
}

// postNotice registers a dependency, and posts a success of the job that is waited for.
func postNotice(t *testing.T, out *builder, run uint64) (*Dependencies, message.Dependency) {
	t.Helper()
	d, want := newDependencies(out, 7), onDependency()
	if err := d.Register(0, want); err != nil {
		t.Fatal(err)
	}
	d.succeeded(want.Of, store.RunID{Seq: run})
	return d, want
}

func TestANoticeIsSentOnceItIsDurable(t *testing.T) {
	out := &builder{seq: 1}
	d, _ := postNotice(t, out, 1)
	if got := d.Notices(0, 10); len(got) != 0 {
		t.Fatalf("before it is durable: %v", got)
	}
	out.durable = 1
	if got := d.Notices(0, 10); len(got) != 1 || got[0].By.Seq != 1 || got[0].Stamp.Epoch != 7 {
		t.Fatalf("once it is durable: %v", got)
	}
	if got := d.Notices(0, 10); len(got) != 0 {
		t.Fatalf("while it is not answered: %v", got)
	}
}

func TestANoticeIsSentUntilItIsTaken(t *testing.T) {
	out := &builder{seq: 1}
	d, want := postNotice(t, out, 1)
	out.durable = 1
	sent := d.Notices(0, 10)[0]
	d.Answered(0, sent, message.Unreached)
	if got := d.Notices(int64(noticeRetry)-1, 10); len(got) != 0 {
		t.Fatalf("too early: %v", got)
	}
	sent = d.Notices(int64(noticeRetry), 10)[0]
	d.succeeded(want.Of, store.RunID{Seq: 2}) // a newer success while the older one is on its way
	d.Answered(int64(noticeRetry), sent, message.Taken)
	newer := d.Notices(int64(noticeRetry), 10)
	if len(newer) != 1 || newer[0].By.Seq != 2 || newer[0].Stamp.Compare(sent.Stamp) <= 0 {
		t.Fatalf("the newer success: %v", newer)
	}
	d.Answered(int64(noticeRetry), newer[0], message.Taken)
	if len(d.outbox) != 0 || len(d.Notices(int64(time.Hour), 10)) != 0 {
		t.Fatal("a notice that was taken is still there")
	}
}

func TestADependencyIsKeptForThePut(t *testing.T) {
	out := &builder{seq: 1, durable: 1}
	d, want := postNotice(t, out, 1)
	if d.Forget(int64(dependencyGrace)-1, want) {
		t.Fatal("forgotten while the put may be on its way")
	}
	if got := d.Checkups(int64(dependencyCheck)); len(got) != 1 || got[0] != want {
		t.Fatalf("to be asked about: %v", got)
	}
	if !d.Forget(int64(dependencyGrace), want) || d.n != 0 || len(d.of) != 0 || len(d.outbox) != 0 {
		t.Fatal("something is left")
	}
	if got := d.Checkups(int64(time.Hour)); len(got) != 0 {
		t.Fatalf("asked about although it is forgotten: %v", got)
	}
}

func TestDependenciesComeBackAtTakeover(t *testing.T) {
	out := &builder{seq: 1}
	_, want := postNotice(t, out, 5)
	d := newDependencies(&builder{seq: 1}, 8)
	d.load(out.small[:1], out.small[1:], 100)
	if d.find(want) == nil || d.find(want).registered != 100 {
		t.Fatal("the dependency is lost")
	}
	if got := d.Notices(100, 10); len(got) != 1 || got[0].Dependency != want || got[0].By.Seq != 5 {
		t.Fatalf("the notice: %v", got)
	}
}
