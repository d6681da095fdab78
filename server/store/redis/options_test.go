package redis_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/carillonhq/carillon/server/store/redis"
)

func TestParseURL(t *testing.T) {
	for url, want := range map[string]redis.Options{
		"redis://h":                   {Addresses: []string{"h:6379"}},
		"redis://h:1/2?prefix=p":      {Addresses: []string{"h:1"}, Database: 2, Prefix: "p"},
		"redis://a:1,b,[::1]:3,[::2]": {Addresses: []string{"a:1", "b:6379", "[::1]:3", "[::2]:6379"}},
		"redis://:secret@h":           {Addresses: []string{"h:6379"}, Password: "secret"},
		"redis://:p@a,b:1/1?sentinel=main": {Addresses: []string{"a:26379", "b:1"}, Password: "p",
			Database: 1, Sentinel: "main"},
		"redis://u@a?sentinel=main&sentinel_login=yes": {Addresses: []string{"a:26379"}, Username: "u",
			Sentinel: "main", SentinelLogin: true},
		"redis://user:se%40cr%2Fet@h:7/0": {Addresses: []string{"h:7"}, Username: "user", Password: "se@cr/et"},
	} {
		got, err := redis.ParseURL(url)
		if err != nil || !slices.Equal(got.Addresses, want.Addresses) || got.Username != want.Username ||
			got.Password != want.Password ||
			got.Database != want.Database || got.Prefix != want.Prefix || got.Sentinel != want.Sentinel ||
			got.SentinelLogin != want.SentinelLogin || got.TLS != nil {
			t.Errorf("%s: %+v, %v", url, got, err)
		}
	}
	if got, err := redis.ParseURL("rediss://h"); err != nil || got.TLS == nil {
		t.Errorf("rediss: %+v, %v", got, err)
	}
}

func TestParseURLRefuses(t *testing.T) {
	for url, want := range map[string]string{
		"http://h":                              "redis:// or rediss://",
		"redis://":                              "is no address of Redis",
		"redis://h:0":                           "is no address of Redis",
		"redis://h:70000":                       "is no address of Redis",
		"redis://h,":                            "is no address of Redis",
		"redis://h:1:2":                         "is no address of Redis",
		"redis://h/x":                           `the database "x"`,
		"redis://h?db=1":                        `no parameter "db"`,
		"redis://h?sentinel_login=yes":          "without sentinel",
		"redis://h?sentinel=m&sentinel_login=1": "must be yes or no",
		"redis://h?prefix=a{b":                  "has a brace",
		"redis://u:%zz@h":                       "not well encoded",
		"redis://:top?secret@h":                 "not well encoded",
		"redis://:top/secret@h":                 "not well encoded",
		"redis://:top#secret@h/0":               "not well encoded",
		"redis://:top%zzsecret@":                "not well encoded",
	} {
		_, err := redis.ParseURL(url)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, want %q", url, err, want)
		}
	}
}
