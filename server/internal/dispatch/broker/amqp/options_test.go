package amqp

import (
	"crypto/tls"
	"strings"
	"testing"
	"time"
)

func TestOptionsRefused(t *testing.T) {
	valid := Options{Addresses: []string{"rabbit:5672"}, Username: "user", Password: "secret"}
	for _, c := range []struct {
		says   string
		change func(*Options)
	}{
		{"addresses: give at least one", func(o *Options) { o.Addresses = nil }},
		{`addresses: "rabbit" is not host:port`, func(o *Options) { o.Addresses = []string{"a:1", "rabbit"} }},
		{`addresses: ":5672" is not`, func(o *Options) { o.Addresses[0] = ":5672" }},
		{`addresses: "rabbit:0" is not`, func(o *Options) { o.Addresses[0] = "rabbit:0" }},
		{`addresses: "amqp://rabbit:5672" is not`, func(o *Options) { o.Addresses[0] = "amqp://rabbit:5672" }},
		{"username: it is missing", func(o *Options) { o.Username = "" }},
		{`mechanism: "plain" is neither`, func(o *Options) { o.Mechanism = "plain" }},
		{"username, password: mechanism EXTERNAL uses neither", func(o *Options) { o.Mechanism = External }},
		{"tls: mechanism EXTERNAL needs", func(o *Options) {
			*o = Options{Addresses: o.Addresses, Mechanism: External, TLS: &tls.Config{}}
		}},
		{"virtual_host: it has 256 bytes", func(o *Options) { o.VirtualHost = strings.Repeat("v", 256) }},
		{"heartbeat: 1.5s is not", func(o *Options) { o.Heartbeat = 1500 * time.Millisecond }},
		{"heartbeat: 500ms is not", func(o *Options) { o.Heartbeat = 500 * time.Millisecond }},
		{"heartbeat: 2m0s is not", func(o *Options) { o.Heartbeat = 2 * time.Minute }},
		{"connect_timeout: -1s is negative", func(o *Options) { o.ConnectTimeout = -time.Second }},
		{"max_message_bytes: -1 is negative", func(o *Options) { o.MaxMessageBytes = -1 }},
	} {
		o := valid
		o.Addresses = append([]string{}, valid.Addresses...)
		c.change(&o)
		_, err := New(o)
		says(t, err, c.says)
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%v shows the password", err)
		}
	}
	client(t, valid)
	_, err := New(Options{Heartbeat: 1})
	says(t, err, "addresses:", "username:", "heartbeat:") // all at once
}

// A client that was made and never used does nothing.
func TestUnused(t *testing.T) {
	c := client(t, Options{Addresses: []string{"127.0.0.1:1"}, Username: "user"})
	c.Publish(t.Context(), nil, func(int, error) { t.Error("done was called for nothing") })
	if len(c.links) > 0 {
		t.Error("it connects")
	}
}
