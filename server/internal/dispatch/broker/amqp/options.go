package amqp

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"
)

// Options say where the broker is, and how to log in.
type Options struct {
	// Addresses are the broker's nodes, host:port. They are tried in turn, beginning with the one that was
	// reached last. At least one.
	Addresses []string
	// TLS is the configuration of TLS; nil: the connection is not encrypted. The server's name is by default
	// the host of the address.
	TLS *tls.Config
	// VirtualHost is the broker's namespace of exchanges and queues; default "/".
	VirtualHost string
	// Mechanism is how to log in: "PLAIN", the default, with Username and Password; or "EXTERNAL", with the
	// certificate in TLS.
	Mechanism          string
	Username, Password string
	// Heartbeat is how often either side shows that it is there; default 10 s, whole seconds, from 1 s to
	// 1 minute. A connection is lost when nothing was heard for one and a half of it.
	Heartbeat time.Duration
	// ConnectTimeout is how long an address may take to accept a connection, with TLS and login; default 10 s.
	ConnectTimeout time.Duration
	// MaxMessageBytes is how large a payload may be; default 16 MiB, as RabbitMQ 4 has it. Larger ones are
	// refused without asking the broker. Set it to the broker's max_message_size if that is less.
	MaxMessageBytes int
	// Name is shown in the broker's list of connections; default "carillon".
	Name string
}

// The ways to log in.
const (
	Plain    = "PLAIN"
	External = "EXTERNAL"
)

// maxHeartbeat is the longest one. The broker may ask for a shorter one.
const maxHeartbeat = time.Minute

// withDefaults returns the options with defaults for what is not given.
func (o Options) withDefaults() Options {
	o.VirtualHost = cmp.Or(o.VirtualHost, "/")
	o.Mechanism = cmp.Or(o.Mechanism, Plain)
	o.Heartbeat = cmp.Or(o.Heartbeat, 10*time.Second)
	o.ConnectTimeout = cmp.Or(o.ConnectTimeout, 10*time.Second)
	o.MaxMessageBytes = cmp.Or(o.MaxMessageBytes, 16<<20)
	o.Name = cmp.Or(o.Name, "carillon")
	return o
}

// check lists everything that is wrong with the options, which have their defaults.
func (o Options) check() error {
	var all []error
	wrong := func(format string, args ...any) { all = append(all, fmt.Errorf(format, args...)) }
	if len(o.Addresses) == 0 {
		wrong("addresses: give at least one, such as rabbit.example.com:5672")
	}
	for _, a := range o.Addresses {
		host, port, err := net.SplitHostPort(a)
		if n, bad := strconv.ParseUint(port, 10, 16); err != nil || bad != nil || n == 0 || host == "" {
			wrong("addresses: %q is not host:port, such as rabbit.example.com:5672", a)
		}
	}
	switch {
	case o.Mechanism == Plain && o.Username == "":
		wrong("username: it is missing, and mechanism %s needs one", Plain)
	case o.Mechanism == External && (o.Username != "" || o.Password != ""):
		wrong("username, password: mechanism %s uses neither; the broker takes the user from the certificate",
			External)
	case o.Mechanism == External && !hasCertificate(o.TLS):
		wrong("tls: mechanism %s needs a client's certificate", External)
	case o.Mechanism != Plain && o.Mechanism != External:
		wrong("mechanism: %q is neither %s nor %s", o.Mechanism, Plain, External)
	}
	if len(o.VirtualHost) > maxShort {
		wrong("virtual_host: it has %d bytes; at most %d", len(o.VirtualHost), maxShort)
	}
	if o.Heartbeat < time.Second || o.Heartbeat > maxHeartbeat || o.Heartbeat%time.Second != 0 {
		wrong("heartbeat: %v is not a number of whole seconds from 1s to %v", o.Heartbeat, maxHeartbeat)
	}
	if o.ConnectTimeout < 0 {
		wrong("connect_timeout: %v is negative", o.ConnectTimeout)
	}
	if o.MaxMessageBytes < 0 {
		wrong("max_message_bytes: %d is negative", o.MaxMessageBytes)
	}
	return errors.Join(all...)
}

func hasCertificate(c *tls.Config) bool {
	return c != nil && (len(c.Certificates) > 0 || c.GetClientCertificate != nil)
}
