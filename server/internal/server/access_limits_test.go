package server_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/server"
)

// TestKeysDoNotOutliveTheirCreator: one that expires makes none that lasts longer.
func TestKeysDoNotOutliveTheirCreator(t *testing.T) {
	d := openDoors(t)
	ends := time.Now().Add(time.Hour).Truncate(time.Second)
	k, err := d.root.CreateKey(t.Context(), carillon.NewKey{Grants: everyRole("a"), Expires: ends})
	if err != nil {
		t.Fatal(err)
	}
	d.keys["ends"] = k.Secret
	c := d.client("ends")
	for _, at := range []time.Time{{}, ends.Add(time.Second)} {
		_, err := c.CreateKey(t.Context(), carillon.NewKey{Grants: grants(carillon.RoleViewer, "a"), Expires: at})
		if !errors.Is(err, carillon.PermissionDenied) || !strings.Contains(err.Error(), "expire_time") {
			t.Errorf("%v: %v", at, err)
		}
	}
	if _, err := c.CreateKey(t.Context(), carillon.NewKey{Grants: grants(carillon.RoleViewer, "a"), Expires: ends}); err != nil {
		t.Error(err)
	}
}

// TestTenantsShareTheKeys: the admin of a namespace has so many at most, and one of all namespaces more.
func TestTenantsShareTheKeys(t *testing.T) {
	d := openDoors(t)
	a, viewer := d.client("a"), carillon.NewKey{Grants: grants(carillon.RoleViewer, "a")}
	for n := 3; n < carillon.MaxTenantKeys; n++ { // with its own, the viewer and the worker
		if _, err := a.CreateKey(t.Context(), viewer); err != nil {
			t.Fatalf("with %d keys: %v", n, err)
		}
	}
	if _, err := a.CreateKey(t.Context(), viewer); !errors.Is(err, carillon.ResourceExhausted) {
		t.Error(err)
	}
	if _, err := d.root.CreateKey(t.Context(), viewer); err != nil {
		t.Error(err)
	}
}

// TestAStoreWithKeysIsNotOpenedToAll by a node that was started as if there were none, unless it is said.
func TestAStoreWithKeysIsNotOpenedToAll(t *testing.T) {
	url := "pebble:" + t.TempDir()
	config := func(auth string) server.Config {
		return server.Config{Store: url, GRPC: "127.0.0.1:0", HTTP: "127.0.0.1:0", Partitions: 4,
			Extensions: server.Extensions{Auth: auth}}
	}
	serves := func(auth string) {
		t.Helper()
		s, stop := serveUntil(t, config(auth))
		defer stop()
		if _, err := dial(t, s).ListJobs(t.Context(), carillon.JobQuery{}); err != nil {
			t.Errorf("auth %q: %v", auth, err)
		}
	}
	serves("")
	firstKey(t, url, carillon.NewKey{Grants: everyRole("*")})
	if _, err := server.New(config("")); err == nil || !strings.HasPrefix(err.Error(), "auth: the store has API keys") {
		t.Errorf("it is served: %v", err)
	}
	serves(server.None)
}
