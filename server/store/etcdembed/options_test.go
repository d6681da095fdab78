package etcdembed_test

import (
	"strings"
	"testing"

	"github.com/carillonhq/carillon/server/store/etcdembed"
)

func TestParseURL(t *testing.T) {
	o, err := etcdembed.ParseURL("etcd-embed:/var/lib/carillon?member=b&peers=a=127.0.0.1:5,b=[::1],c=localhost:7&listen=127.0.0.1:9&prefix=p&records=9")
	if err != nil {
		t.Fatal(err)
	}
	if o.Folder != "/var/lib/carillon" || o.Member != "b" || len(o.Peers) != 3 || o.Peers[1].Port != 2380 || o.Listen.Port != 9 || o.Listen.Host != "127.0.0.1" ||
		o.Store.Prefix != "p" || o.Store.Records != 9 || o.Store.Quota != 8<<30 || o.Store.TLS != nil {
		t.Errorf("%+v", o)
	}
	if want := []string{"127.0.0.1:4", "[::1]:2379", "localhost:6"}; strings.Join(o.Store.Addresses, " ") != strings.Join(want, " ") {
		t.Errorf("addresses %q, want %q", o.Store.Addresses, want)
	}
}

func TestParseURLRefuses(t *testing.T) {
	for url, want := range map[string]string{
		"etcd-embed:":                                            "etcd-embed:DIR",
		"etcd-embed://h":                                         "etcd-embed:DIR",
		"etcd-embed:d":                                           "needs peers",
		"etcd-embed:d?peers=a=127.0.0.1":                         "is not among peers",
		"etcd-embed:d?member=b&peers=a=127.0.0.1":                `the member "b" is not among peers`,
		"etcd-embed:d?member=a&peers=127.0.0.1":                  "is not name=host:port",
		"etcd-embed:d?member=a&peers=a=h:1":                      "is not name=host:port",
		"etcd-embed:d?member=a&peers=a=h:70000":                  "is not name=host:port",
		"etcd-embed:d?member=a&peers=a=http://h":                 "is not name=host:port",
		"etcd-embed:d?member=a&peers=a=h:5,a=h:7":                "two members",
		"etcd-embed:d?member=a&peers=a=10.0.0.1":                 "beyond this machine, and there is no TLS",
		"etcd-embed:d?member=a&peers=a=h&sslkey=/k":              "needs sslrootcert, sslcert and sslkey",
		"etcd-embed:d?member=a&peers=a=[::1]&listen=:7":          "listen is \":7\": must be host:port",
		"etcd-embed:d?member=a&peers=a=[::1]&listen=10.0.0.1":    `"a" is beyond this machine, and there is no TLS`,
		"etcd-embed:d?member=a&peers=a=[::1]&color=1":            `no parameter "color"`,
		"etcd-embed:d?insecure=true":                             "must be yes or no",
		"etcd-embed:d?member=a&peers=a=h&insecure=yes&records=x": "whole number above 0",
	} {
		if _, err := etcdembed.ParseURL(url); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", url, err, want)
		}
	}
	if _, err := etcdembed.ParseURL("etcd-embed:d?member=a&peers=a=10.0.0.1&insecure=yes"); err != nil {
		t.Error(err)
	}
}

func TestWithPeers(t *testing.T) {
	for _, store := range []string{"etcd-embed:d", "etcd-embed:d?prefix=p", "etcd-embed:d?member=b"} {
		url, err := etcdembed.WithPeers(store, "b=127.0.0.1,c=127.0.0.1:9", "b", false)
		if err != nil {
			t.Fatal(err)
		}
		if o, err := etcdembed.ParseURL(url); err != nil || o.Member != "b" || len(o.Peers) != 2 || o.Folder != "d" {
			t.Errorf("%s: %+v, %v", url, o, err)
		}
	}
	for insecure, refused := range map[bool]bool{false: true, true: false} {
		url, err := etcdembed.WithPeers("etcd-embed:d", "b=10.0.0.1", "b", insecure)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := etcdembed.ParseURL(url); (err != nil) != refused {
			t.Errorf("members beyond this machine, insecure %v: %v", insecure, err)
		}
	}
	for store, want := range map[string]string{"redis://h": "are for a store of etcd in this process",
		"etcd-embed:d?peers=b=h": "give them once", "etcd-embed:d": "--node-name"} {
		if _, err := etcdembed.WithPeers(store, "b=127.0.0.1", "", false); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", store, err, want)
		}
	}
}
