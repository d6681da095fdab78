package s3_test

import (
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/server/store/s3"
)

func TestParseURL(t *testing.T) {
	o, to, err := s3.ParseURL("s3://my-bucket/a/b?region=r&endpoint=http://h:9000&path-style=yes&commit-every=250ms&records=7")
	if err != nil {
		t.Fatal(err)
	}
	if o.Bucket != "my-bucket" || o.Region != "r" || o.Endpoint != "http://h:9000" || !o.PathStyle || to.Prefix != "a/b" ||
		to.Every != 250*time.Millisecond || to.Records != 7 {
		t.Errorf("%+v, %+v", o, to)
	}
	if _, to, err := s3.ParseURL("s3://b"); err != nil || to.Prefix != "" || to.Every != 0 {
		t.Errorf("the defaults are package object's: %+v, %v", to, err)
	}
}

func TestParseURLRefuses(t *testing.T) {
	for url, want := range map[string]string{
		"s3:b":                      "s3://BUCKET/PREFIX",
		"s3:///prefix":              "s3://BUCKET/PREFIX",
		"s3://b:80":                 "s3://BUCKET/PREFIX",
		"s3://key:secret@b":         "credentials come from the environment",
		"s3://b?color=1":            `no parameter "color"`,
		"s3://b?path-style=true":    "must be yes or no",
		"s3://b?endpoint=h:9000":    "must be a URL",
		"s3://b?commit-every=1h":    "from 1ms to 10s",
		"s3://b?commit-every=0s":    "from 1ms to 10s",
		"s3://b?commit-every=often": "from 1ms to 10s",
		"s3://b?records=0":          "whole number above 0",
	} {
		if _, _, err := s3.ParseURL(url); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", url, err, want)
		} else if strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: the error repeats the secret: %v", url, err)
		}
	}
}
