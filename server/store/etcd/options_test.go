package etcd_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/carillonhq/carillon/server/store/etcd"
)

func TestParseURL(t *testing.T) {
	for url, want := range map[string]etcd.Options{
		"etcd://h":                            {Addresses: []string{"h:2379"}},
		"etcd://h/":                           {Addresses: []string{"h:2379"}},
		"etcd://a:1,b,[::1]:3,[::2]?prefix=p": {Addresses: []string{"a:1", "b:2379", "[::1]:3", "[::2]:2379"}, Prefix: "p"},
		"etcd://user:se%40cr%2Fet@h:7":        {Addresses: []string{"h:7"}, Username: "user", Password: "se@cr/et"},
		"etcd://h?quota=8589934592&records=5": {Addresses: []string{"h:2379"}, Quota: 8 << 30, Records: 5},
	} {
		got, err := etcd.ParseURL(url)
		if err != nil || !slices.Equal(got.Addresses, want.Addresses) || got.Username != want.Username ||
			got.Password != want.Password || got.Prefix != want.Prefix || got.Quota != want.Quota ||
			got.Records != want.Records || got.TLS != nil {
			t.Errorf("%s: %+v, %v", url, got, err)
		}
	}
	if got, err := etcd.ParseURL("etcd://h?maintenance=no"); err != nil || !got.NoMaintenance {
		t.Errorf("maintenance=no: %+v, %v", got, err)
	}
	if got, err := etcd.ParseURL("etcds://h"); err != nil || got.TLS == nil {
		t.Errorf("etcds: %+v, %v", got, err)
	}
}

func TestParseURLRefuses(t *testing.T) {
	certificate := "/nowhere"
	for url, want := range map[string]string{
		"http://h":                            "etcd:// or etcds://",
		"etcd://":                             "is no address of etcd",
		"etcd://h:0":                          "is no address of etcd",
		"etcd://h:70000":                      "is no address of etcd",
		"etcd://h,":                           "is no address of etcd",
		"etcd://h:1:2":                        "is no address of etcd",
		"etcd://h/registry":                   "is no address of etcd",
		"etcd://h?keyspace=1":                 `no parameter "keyspace"`,
		"etcd://h?quota=2G":                   "whole number above 0",
		"etcd://h?maintenance=false":          "must be yes or no",
		"etcd://h?records=0":                  "whole number above 0",
		"etcd://h?prefix=/a":                  "a slash at one end",
		"etcd://h?prefix=a%20b":               "white space",
		"etcd://u@h":                          "a user without a password",
		"etcd://:secret@h":                    "a password without a user",
		"etcd://u:%zz@h":                      "not well encoded",
		"etcd://u:top?secret@h":               "not well encoded",
		"etcd://h?sslrootcert=" + certificate: "begins with etcds://",
		"etcds://h?sslcert=" + certificate:    "belong together",
		"etcds://h?sslrootcert=/nowhere":      "sslrootcert of the URL of etcd: open /nowhere",
	} {
		_, err := etcd.ParseURL(url)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, want %q", url, err, want)
		}
	}
}
