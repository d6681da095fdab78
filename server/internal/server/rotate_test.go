package server_test

import (
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/access"
	"github.com/carillonhq/carillon/server/internal/server"
)

// opens reports whether a secret opens the node.
func (d *doors) opens(secret string) bool {
	d.t.Helper()
	d.keys["tried"] = secret
	_, err := d.client("tried").ListJobs(d.t.Context(), carillon.JobQuery{Namespace: "a"})
	if err != nil && !errors.Is(err, carillon.Unauthenticated) {
		d.t.Error(err)
	}
	return err == nil
}

// rotate gives a key another secret.
func (d *doors) rotate(id string, overlap time.Duration) carillon.CreatedKey {
	d.t.Helper()
	k, unheard, err := d.root.RotateKey(d.t.Context(), id, overlap)
	if err != nil || len(unheard) > 0 {
		d.t.Fatal(unheard, err)
	}
	return k
}

// TestTwoSecretsDuringARotation: both are valid until the overlap ends, then the new one alone; streams that
// the old one began end then, and those of the new one go on.
func TestTwoSecretsDuringARotation(t *testing.T) {
	url, ahead := "pebble:"+t.TempDir(), new(atomic.Int64)
	root := firstKey(t, url, carillon.NewKey{Grants: everyRole("*")})
	d := &doors{t: t, keys: map[string]string{"right": root.Secret}}
	now := func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	d.node = serve(t, server.Config{Store: url, Extensions: server.Extensions{Auth: server.AuthKeys}, Partitions: 4, Now: now})
	c := d.client("right")
	d.root = c
	made, err := c.CreateKey(t.Context(), carillon.NewKey{Grants: everyRole("a")})
	if err != nil {
		t.Fatal(err)
	}
	session := func(secret string) carillon.Session {
		d.keys["session"] = secret
		s, err := d.client("session").Connect(t.Context(), carillon.Hello{Namespace: "a", Queues: []string{"q"}, WorkerID: "w" + secret[30:40]})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		return s
	}
	old := session(made.Secret)
	rotated := d.rotate(made.Key.ID, time.Hour)
	k := rotated.Key
	if k.ID != made.Key.ID || len(k.Grants) != len(made.Key.Grants) || k.Rotated.IsZero() || k.Rotator != "key "+root.Key.ID ||
		k.OverlapEnds.Sub(now()).Round(time.Minute) != time.Hour || rotated.Secret == made.Secret {
		t.Errorf("%+v", rotated)
	}
	if !d.opens(made.Secret) || !d.opens(rotated.Secret) {
		t.Error("during the overlap one of both secrets opens nothing")
	}
	renewed := session(rotated.Secret)
	if _, _, err := c.RotateKey(t.Context(), k.ID, time.Hour); !errors.Is(err, carillon.FailedPrecondition) ||
		!strings.Contains(err.Error(), "overlap of 0s") {
		t.Errorf("a third secret: %v", err)
	}
	// Whoever has the old secret, which may have leaked, does not make himself the owner of the key.
	d.keys["old"] = made.Secret
	if _, _, err := d.client("old").RotateKey(t.Context(), k.ID, 0); !errors.Is(err, carillon.PermissionDenied) {
		t.Errorf("rotated by the old secret: %v", err)
	}
	ahead.Store(int64(time.Hour))
	if d.opens(made.Secret) || !d.opens(rotated.Secret) {
		t.Error("after the overlap not the new secret alone opens the node")
	}
	if _, err := old.Receive(t.Context()); !errors.Is(err, carillon.Unauthenticated) {
		t.Errorf("a stream of the old secret: %v", err)
	}
	if err := renewed.Send(t.Context(), carillon.WorkRequest{Credits: []carillon.Credit{{Queue: "q", N: 1}}}); err != nil {
		t.Errorf("a stream of the new secret: %v", err)
	}
	page, err := c.ListKeys(t.Context(), carillon.KeyQuery{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range page.Keys {
		if !page.Keys[i].OverlapEnds.IsZero() {
			t.Errorf("an overlap that is over is shown: %+v", page.Keys[i])
		}
	}
}

// TestARotationAtOnce ends all other secrets of the key, also while it is being rotated.
func TestARotationAtOnce(t *testing.T) {
	d := openDoors(t)
	made, err := d.root.CreateKey(t.Context(), carillon.NewKey{Grants: everyRole("a")})
	if err != nil {
		t.Fatal(err)
	}
	second := d.rotate(made.Key.ID, time.Hour)
	third := d.rotate(made.Key.ID, 0)
	if d.opens(made.Secret) || d.opens(second.Secret) || !d.opens(third.Secret) || !third.Key.OverlapEnds.IsZero() {
		t.Errorf("%+v", third)
	}
	if _, err := d.root.RevokeKey(t.Context(), made.Key.ID); err != nil || d.opens(third.Secret) {
		t.Errorf("a revoked key opens the node: %v", err)
	}
}

// TestWhoMayRotate: who could make the key as it is.
func TestWhoMayRotate(t *testing.T) {
	d := openDoors(t)
	create := func(n carillon.NewKey) carillon.CreatedKey {
		k, err := d.root.CreateKey(t.Context(), n)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	ends := time.Now().Add(time.Hour).Truncate(time.Second)
	lasting, ending := create(carillon.NewKey{Grants: everyRole("a")}), create(carillon.NewKey{Grants: everyRole("a"), Expires: ends})
	d.keys["ends"] = ending.Secret
	all, err := d.root.ListKeys(t.Context(), carillon.KeyQuery{})
	if err != nil {
		t.Fatal(err)
	}
	expired := ""
	for i := range all.Keys {
		if k := &all.Keys[i]; !k.Expires.IsZero() && k.Expires.Before(time.Now()) {
			expired = k.ID
		}
	}
	none, _, _ := access.Mint()
	for _, c := range []struct {
		by, id  string
		overlap time.Duration
		want    error
	}{
		{"tenant", lasting.Key.ID, 0, carillon.NotFound},
		{"viewer", lasting.Key.ID, 0, carillon.PermissionDenied},
		{"ends", lasting.Key.ID, 0, carillon.PermissionDenied},
		{"right", none, 0, carillon.NotFound},
		{"right", expired, 0, carillon.FailedPrecondition},
		{"right", lasting.Key.ID, -1, carillon.InvalidArgument},
		{"right", lasting.Key.ID, carillon.MaxKeyOverlap + 1, carillon.InvalidArgument},
		{"a", lasting.Key.ID, 0, nil},
		{"ends", ending.Key.ID, 0, nil}, // itself
	} {
		_, _, err := d.client(c.by).RotateKey(t.Context(), c.id, c.overlap)
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.by, err, c.want)
		}
	}
	// An overlap that is longer than the key ends with the key, so that the old secret ends as the key does.
	old := create(carillon.NewKey{Grants: everyRole("a"), Expires: ends})
	other := create(carillon.NewKey{Grants: everyRole("a"), Expires: ends})
	d.rotate(old.Key.ID, carillon.MaxKeyOverlap)
	d.keys["old"] = old.Secret
	for _, id := range []string{old.Key.ID, other.Key.ID} {
		_, _, err := d.client("old").RotateKey(t.Context(), id, 0)
		if !errors.Is(err, carillon.PermissionDenied) || !strings.Contains(err.Error(), "newer secret") {
			t.Errorf("rotated by a secret that was rotated: %v", err)
		}
	}
	k := create(carillon.NewKey{Grants: everyRole("a"), Expires: ends})
	if r := d.rotate(k.Key.ID, carillon.MaxKeyOverlap); !r.Key.Expires.Equal(ends) || !r.Key.OverlapEnds.Equal(ends) {
		t.Errorf("the old secret outlives its key: %+v", r.Key)
	}
}

// TestAnOldSecretPutsNobodyOut: whoever has found the old secret of an admin's key cannot end the newest one,
// neither by revoking the key nor through a key that he makes, also if all of them end at the same time, and
// also by a session.
func TestAnOldSecretPutsNobodyOut(t *testing.T) {
	d := openDoors(t)
	ends := time.Now().Add(time.Hour).Truncate(time.Second)
	for what, c := range map[string]struct {
		key     carillon.NewKey
		overlap time.Duration
		made    time.Time // when a key ends that the old secret would make
	}{
		"a key without an end":   {carillon.NewKey{Grants: everyRole("*")}, time.Hour, time.Now().Add(time.Minute)},
		"a key that ends":        {carillon.NewKey{Grants: everyRole("*"), Expires: ends}, carillon.MaxKeyOverlap, ends},
		"a key of one namespace": {carillon.NewKey{Grants: everyRole("a"), Expires: ends}, carillon.MaxKeyOverlap, ends},
	} {
		victim, err := d.root.CreateKey(t.Context(), c.key)
		if err != nil {
			t.Fatal(err)
		}
		d.keys["old"], d.keys["newest"] = victim.Secret, d.rotate(victim.Key.ID, c.overlap).Secret
		old := d.client("old")
		refused := func(call string, err error) {
			if !errors.Is(err, carillon.PermissionDenied) || !strings.Contains(err.Error(), "newer secret") {
				t.Errorf("%s: an old secret %s a key: %v", what, call, err)
			}
		}
		_, err = old.CreateKey(t.Context(), carillon.NewKey{Grants: c.key.Grants, Expires: c.made})
		refused("makes", err)
		_, _, err = old.RotateKey(t.Context(), victim.Key.ID, 0)
		refused("rotates", err)
		_, err = old.RevokeKey(t.Context(), victim.Key.ID)
		refused("revokes", err)
		b := &browser{t: t, url: "http://" + d.node.HTTPAddr(), client: &http.Client{}}
		b.login(victim.Secret)
		if code, body := b.ask("DELETE", "/v1/keys/"+victim.Key.ID, "", "Sec-Fetch-Site", samePage); code != 403 ||
			!strings.Contains(body, "newer secret") {
			t.Errorf("%s: a session of an old secret revokes a key: %d %s", what, code, body)
		}
		if !d.opens(d.keys["newest"]) {
			t.Errorf("%s: the newest secret opens nothing", what)
		}
		made, err := d.client("newest").CreateKey(t.Context(), carillon.NewKey{Grants: c.key.Grants, Expires: c.made})
		if err == nil {
			_, err = d.client("newest").RevokeKey(t.Context(), made.Key.ID)
		}
		if err != nil {
			t.Errorf("%s: the newest secret: %v", what, err)
		}
	}
}
