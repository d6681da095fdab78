package etcd_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/carillonhq/carillon/server/internal/testing/realserver"
	"github.com/carillonhq/carillon/server/internal/testing/servertest"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/etcd"
)

// TestAUserWithFewRights: a user who may read and write the keys below the store's prefix, and no others, is
// enough.
func TestAUserWithFewRights(t *testing.T) {
	m := realserver.StartEtcd(t, realserver.VolatileEtcd()...)
	o := fresh(m)
	o.Username, o.Password = "carillon", "a secret"
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{m.Address()}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, user := range []string{"root", o.Username} {
		if _, err := c.RoleAdd(t.Context(), user); err != nil {
			t.Fatal(err)
		}
		if _, err := c.UserAdd(t.Context(), user, o.Password); err != nil {
			t.Fatal(err)
		}
		if _, err := c.UserGrantRole(t.Context(), user, user); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.RoleGrantPermission(t.Context(), o.Username, o.Prefix+"/", clientv3.GetPrefixRangeEnd(o.Prefix+"/"),
		clientv3.PermissionType(clientv3.PermReadWrite)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.AuthEnable(t.Context()); err != nil {
		t.Fatal(err)
	}
	wrong := o
	wrong.Password = "no secret"
	if _, err := etcd.Open(t.Context(), wrong); err == nil || strings.Contains(err.Error(), wrong.Password) {
		t.Errorf("open with another password: %v", err)
	}
	s := open(t, etcd.Hurried(o, 50*time.Millisecond, 100*time.Millisecond))
	sh, held := servertest.Own(t, s, 3)
	servertest.Want(t, "put", sh, servertest.Batch("a"), store.Applied)
	servertest.WantNames(t, sh, "a")
	l := s.Leaser()
	if err := l.Join(t.Context(), store.Member{ID: "n", Nonce: 1}, servertest.Lease); err != nil {
		t.Error(err)
	}
	if m, err := l.Members(t.Context()); err != nil || len(m) != 1 {
		t.Errorf("members %v, %v", m, err)
	}
	if err := l.Release(t.Context(), "node", []store.Holding{held}); err != nil {
		t.Error(err)
	}
}

// TestTLSOfAURL: the files that a URL names are used, with a server of a private authority that wants a
// certificate of its clients.
func TestTLSOfAURL(t *testing.T) {
	certificate, key, _ := realserver.Authority(t)
	m := realserver.StartEtcdTLS(t, certificate, key)
	at := fmt.Sprintf("etcds://%s?prefix=%s", m.Address(), fresh().Prefix)
	through := func(query string) (*etcd.Store, error) {
		o, err := etcd.ParseURL(at + query)
		if err != nil {
			t.Fatal(err)
		}
		o.Timeout = 300 * time.Millisecond
		return etcd.Open(t.Context(), o)
	}
	for query, what := range map[string]string{
		"": "a private authority", "&sslrootcert=" + certificate: "a server that wants a certificate",
		"&sslcert=" + certificate + "&sslkey=" + key: "a private authority, with a certificate",
	} {
		if s, err := through(query); err == nil {
			t.Errorf("%s: it opens", what)
			_ = s.Close()
		}
	}
	s, err := through("&sslrootcert=" + certificate + "&sslcert=" + certificate + "&sslkey=" + key)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	sh, _ := servertest.Own(t, s, 3)
	servertest.Want(t, "put", sh, servertest.Batch("a"), store.Applied)
}
