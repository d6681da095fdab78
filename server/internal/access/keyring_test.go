package access

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/carillon/v1"
)

var noon = time.Date(2026, 11, 28, 12, 30, 0, 0, time.UTC)

// ring has one key, made as a caller asks for it.
func ring(t testing.TB, n carillon.NewKey) (r *Keyring, k Key, secret string) {
	t.Helper()
	if n.Grants == nil {
		n.Grants = []carillon.AccessGrant{{Role: carillon.RoleProducer, Namespaces: []string{"shop-*"}}}
	}
	if err := n.Validate(noon); err != nil {
		t.Fatal(err)
	}
	k, secret = New(n, "test", noon)
	r = &Keyring{}
	r.Replace([]Key{k})
	return r, k, secret
}

// TestFlippedKeysAreRefused: each bit of a key counts, and so does its length.
func TestFlippedKeysAreRefused(t *testing.T) {
	r, _, secret := ring(t, carillon.NewKey{})
	if _, err := r.Find(secret, noon); err != nil {
		t.Fatal(err)
	}
	for i := range len(secret) * 8 {
		b := []byte(secret)
		b[i/8] ^= 1 << (i % 8)
		if p, err := r.Find(string(b), noon); err == nil || !errors.Is(err, carillon.Unauthenticated) {
			t.Fatalf("bit %d: %v, %v", i, p, err)
		}
	}
	for _, other := range []string{"", "ck_", secret[:len(secret)-1], secret + "a", secret + secret, strings.ToUpper(secret)} {
		if _, err := r.Find(other, noon); !errors.Is(err, carillon.Unauthenticated) {
			t.Errorf("%q: %v", other, err)
		}
	}
	// A checksum is no secret: with the right one a wrong secret is refused, too.
	rest := []byte(secret[:keyChars-sumChars])
	rest[len(rest)-5] = map[bool]byte{true: 'b', false: 'a'}[rest[len(rest)-5] == 'a']
	if _, err := r.Find(string(rest)+checksum(string(rest)), noon); !errors.Is(err, carillon.Unauthenticated) {
		t.Error(err)
	}
}

// TestKeysEnd: an expired one and a revoked one are refused in the same words, and what they began ends.
func TestKeysEnd(t *testing.T) {
	r, k, secret := ring(t, carillon.NewKey{Expires: noon.Add(time.Hour)})
	p, err := r.Find(secret, noon.Add(time.Hour-1))
	if err != nil {
		t.Fatal(err)
	}
	_, expired := r.Find(secret, noon.Add(time.Hour))
	g := Gate{Keys: r, Now: func() time.Time { return noon }}
	ctx, release := g.Hold(With(t.Context(), p))
	defer release()
	r.Replace([]Key{k}) // again
	if ctx.Err() != nil || g.Alive(With(ctx, p)) != nil {
		t.Error("the same key was taken for another")
	}
	r.Replace(nil)
	_, revoked := r.Find(secret, noon)
	if expired == nil || revoked == nil || expired.Error() != revoked.Error() {
		t.Errorf("%v, %v", expired, revoked)
	}
	if !errors.Is(context.Cause(ctx), carillon.Unauthenticated) || g.Alive(With(ctx, p)) == nil {
		t.Errorf("a stream of a revoked key goes on: %v", context.Cause(ctx))
	}
	late, release := p.Hold(t.Context(), noon)
	defer release()
	if late.Err() == nil {
		t.Error("a stream begins with a revoked key")
	}
}

// TestUsesAreCountedByTheHour, and only what is newer than what is on record.
func TestUsesAreCountedByTheHour(t *testing.T) {
	r, k, secret := ring(t, carillon.NewKey{})
	for range 3 {
		if _, err := r.Find(secret, noon); err != nil {
			t.Fatal(err)
		}
	}
	uses := r.Unrecorded()
	if len(uses) != 1 || uses[0].ID != k.ID || !uses[0].Hour.Equal(noon.Truncate(time.Hour)) {
		t.Fatalf("%v", uses)
	}
	k.LastUsed = uses[0].Hour
	r.Replace([]Key{k})
	if uses := r.Unrecorded(); len(uses) != 0 {
		t.Errorf("%v", uses)
	}
}

// TestNobodyGrantsMoreThanHeHas: an admin of some namespaces makes and sees keys of those alone.
func TestNobodyGrantsMoreThanHeHas(t *testing.T) {
	p := &Principal{Grants: []carillon.AccessGrant{{Role: carillon.RoleAdmin, Namespaces: []string{"shop-*", "x"}},
		{Role: carillon.RoleOperator, Namespaces: []string{"*"}}}}
	for namespace, want := range map[string]bool{"shop-": true, "shop-a": true, "shop-*": true, "shop-a-*": true, "x": true,
		"shop": false, "sho*": false, "*": false, "x*": false, "y": false} {
		grants := []carillon.AccessGrant{{Role: carillon.RoleViewer, Namespaces: []string{"x", namespace}}}
		if got := p.Administers(grants); got != want {
			t.Errorf("%s: %v", namespace, got)
		}
	}
}

// TestQueuesOfWorkers: a worker of some queues connects for those alone.
func TestQueuesOfWorkers(t *testing.T) {
	p := &Principal{Grants: []carillon.AccessGrant{{Role: carillon.RoleWorker, Namespaces: []string{"a"}, Queues: []string{"q", "r"}}}}
	for queues, want := range map[string]bool{"q": true, "q r": true, "q s": false, "s": false} {
		m := &pb.WorkRequest{Hello: &pb.Hello{Namespace: "a", Queues: strings.Fields(queues)}}
		if err := Judge(p, pb.SchedulerService_Work_FullMethodName, m); (err == nil) != want {
			t.Errorf("%s: %v", queues, err)
		}
	}
}

// BenchmarkCheck is what a call costs: the key is found, and the call judged. The goal is 5 µs.
func BenchmarkCheck(b *testing.B) {
	r, _, secret := ring(b, carillon.NewKey{})
	g := Gate{Keys: r, Now: time.Now}
	header := []string{"Bearer " + secret}
	m := &pb.PutJobRequest{Namespace: "shop-a", Name: "n", Job: &pb.Job{}}
	b.ReportAllocs()
	for b.Loop() {
		p, err := g.Caller(b.Context(), pb.SchedulerService_PutJob_FullMethodName, header)
		if err == nil {
			err = g.Judge(With(b.Context(), p), pb.SchedulerService_PutJob_FullMethodName, m)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}

// TestWhatIsNoIDIsNotRepeated: it may be a whole key.
func TestWhatIsNoIDIsNotRepeated(t *testing.T) {
	_, k, secret := ring(t, carillon.NewKey{})
	if err := CheckID(k.ID); err != nil {
		t.Error(err)
	}
	for _, id := range []string{secret, secret[3:], strings.ToUpper(k.ID)} {
		if err := CheckID(id); !errors.Is(err, carillon.NotFound) || strings.Contains(err.Error(), id[4:12]) {
			t.Error(err)
		}
	}
}

// TestWhichSecretWasShown: by the keys as the store has them, which the node may not know yet.
func TestWhichSecretWasShown(t *testing.T) {
	r, k, secret := ring(t, carillon.NewKey{})
	p, err := r.Find(secret, noon)
	if err != nil {
		t.Fatal(err)
	}
	once, _ := k.Rotate("test", time.Hour, noon)
	twice, _ := once.Rotate("test", 0, noon)
	for what, c := range map[string]struct {
		keys []Key
		want error
	}{
		"the newest":             {[]Key{k}, nil},
		"the one before":         {[]Key{once}, carillon.PermissionDenied},
		"one that was put out":   {[]Key{twice}, carillon.Unauthenticated},
		"one of a key that went": {nil, carillon.Unauthenticated},
	} {
		if err := p.ShowsNewest(c.keys); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", what, err, c.want)
		}
	}
	if err := (&Principal{Kind: KindToken}).ShowsNewest(nil); err != nil {
		t.Errorf("a token: %v", err)
	}
}
