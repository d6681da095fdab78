package cassandra_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/carillonhq/carillon/server/store/cassandra"
)

func TestParseURL(t *testing.T) {
	for url, want := range map[string]cassandra.Options{
		"cassandra://h":                     {Addresses: []string{"h:9042"}},
		"cassandra://h/":                    {Addresses: []string{"h:9042"}},
		"cassandra://a:1,b,[::1]:3":         {Addresses: []string{"a:1", "b:9042", "[::1]:3"}},
		"cassandra://user:se%40cr%2Fet@h:7": {Addresses: []string{"h:7"}, Username: "user", Password: "se@cr/et"},
		"cassandra://h?keyspace=k_1&datacenter=dc%201&replication=2&records=5": {
			Addresses: []string{"h:9042"}, Keyspace: "k_1", Datacenter: "dc 1", Replication: 2, Records: 5},
	} {
		got, err := cassandra.ParseURL(url)
		if err != nil || !slices.Equal(got.Addresses, want.Addresses) || got.Username != want.Username ||
			got.Password != want.Password || got.Keyspace != want.Keyspace || got.Datacenter != want.Datacenter ||
			got.Replication != want.Replication || got.Records != want.Records || got.TLS != nil {
			t.Errorf("%s: %+v, %v", url, got, err)
		}
	}
	if got, err := cassandra.ParseURL("cassandras://h"); err != nil || got.TLS == nil {
		t.Errorf("cassandras: %+v, %v", got, err)
	}
}

func TestParseURLRefuses(t *testing.T) {
	for url, want := range map[string]string{
		"http://h":                            "cassandra:// or cassandras://",
		"cassandra://":                        "is no address of Cassandra",
		"cassandra://h:0":                     "is no address of Cassandra",
		"cassandra://h,":                      "is no address of Cassandra",
		"cassandra://h/keyspace":              "is no address of Cassandra",
		"cassandra://h?prefix=a":              `no parameter "prefix"; there are keyspace, datacenter, replication`,
		"cassandra://h?keyspace=Jobs":         "small letter",
		"cassandra://h?keyspace=a;b":          "parameters",
		"cassandra://h?replication=0":         "whole number above 0",
		"cassandra://h?records=many":          "whole number above 0",
		"cassandra://u@h":                     "a user without a password",
		"cassandra://u:top?secret@h":          "not well encoded",
		"cassandra://h?sslrootcert=/nowhere":  "begins with cassandras://",
		"cassandras://h?sslcert=/nowhere":     "belong together",
		"cassandras://h?sslrootcert=/nowhere": "sslrootcert of the URL of Cassandra: open /nowhere",
	} {
		_, err := cassandra.ParseURL(url)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, want %q", url, err, want)
		}
	}
}
