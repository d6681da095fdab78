package brokerfile

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"maps"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/dispatch/broker"
	"github.com/carillonhq/carillon/server/internal/dispatch/brokertarget"
	"github.com/carillonhq/carillon/server/internal/ingest"
	"github.com/carillonhq/carillon/server/internal/yamlfile"
)

// Limits.
const (
	MaxBrokers = 1000

	leastMessage = 1 << 10 // max_message
	mostMessage  = 64 << 20
)

// File is what a file says, by name.
type File struct {
	Brokers map[string]brokertarget.Broker
	Ingests map[string]ingest.Config
}

// Prints are what tells one state of a file from another.
func (f *File) Prints() map[string]string {
	all := make(map[string]string, len(f.Brokers)+len(f.Ingests))
	for name, b := range f.Brokers {
		all["brokers."+name] = b.Print
	}
	for name, c := range f.Ingests {
		all["ingest."+name] = c.Print
	}
	return all
}

// file is the whole file.
type file struct {
	Brokers map[string]*entry       `yaml:"brokers"`
	Ingest  map[string]*ingestEntry `yaml:"ingest"`
}

// entry is one broker as the file has it.
type entry struct {
	Kind            string    `yaml:"kind"`
	Addresses       []string  `yaml:"addresses"`
	TLS             yaml.Node `yaml:"tls" json:"-"`
	User            string    `yaml:"user"`
	PasswordFile    string    `yaml:"password_file"`
	InFlight        *int      `yaml:"in_flight"`
	Awaiting        *int      `yaml:"awaiting"`
	SASL            string    `yaml:"sasl"`
	VirtualHost     string    `yaml:"virtual_host"`
	Core            bool      `yaml:"core"`
	CredentialsFile string    `yaml:"credentials_file"`
	Database        int       `yaml:"database"`
	MaxLength       int64     `yaml:"max_length"`
	MaxMessage      int       `yaml:"max_message"`
}

// tlsEntry is how one is reached by TLS.
type tlsEntry struct {
	CAFile     string `yaml:"ca_file"`
	CertFile   string `yaml:"cert_file"`
	KeyFile    string `yaml:"key_file"`
	ServerName string `yaml:"server_name"`
}

// Read reads a file and the files that it names, which are relative to its folder. An error names every
// broker and field at fault.
func Read(path string) (*File, error) {
	var f file
	if err := yamlfile.Read(path, &f); err != nil {
		return nil, err
	}
	if len(f.Brokers) > MaxBrokers {
		return nil, fmt.Errorf("%s: there are %d brokers, more than %d", path, len(f.Brokers), MaxBrokers)
	}
	if len(f.Ingest) > MaxIngests {
		return nil, fmt.Errorf("%s: there are %d ingests, more than %d", path, len(f.Ingest), MaxIngests)
	}
	all := &File{Brokers: map[string]brokertarget.Broker{}, Ingests: map[string]ingest.Config{}}
	var faults []error
	for _, name := range slices.Sorted(maps.Keys(f.Brokers)) {
		r := reader{folder: filepath.Dir(path), hash: sha256.New()}
		b, err := r.broker(name, f.Brokers[name])
		if err != nil {
			faults = append(faults, fmt.Errorf("%s: brokers.%s.%w", path, name, err))
			continue
		}
		all.Brokers[name] = b
	}
	for _, name := range slices.Sorted(maps.Keys(f.Ingest)) {
		c, err := f.Ingest[name].config(name, f.Brokers, all.Brokers)
		if err != nil {
			faults = append(faults, fmt.Errorf("%s: ingest.%s.%w", path, name, err))
			continue
		}
		all.Ingests[name] = c
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	return all, nil
}

// reader reads one broker.
type reader struct {
	folder string
	hash   hash.Hash // of what was read
}

// broker returns a broker. An error begins with the field at fault.
func (r *reader) broker(name string, e *entry) (b brokertarget.Broker, err error) {
	// a job that names it must be valid
	if err := checkName(name); err != nil {
		return b, fmt.Errorf("name: %w", err)
	}
	if e == nil {
		return b, errors.New("kind: it is missing; give one of " + strings.Join(delivery.BrokerKinds, ", "))
	}
	if err := e.check(); err != nil {
		return b, err
	}
	b.Settings = broker.Settings{Kind: e.Kind, Addresses: e.Addresses, User: e.User, SASL: e.SASL,
		VirtualHost: e.VirtualHost, Core: e.Core, Database: e.Database, MaxLength: e.MaxLength,
		MaxMessage: e.MaxMessage,
		InFlight:   brokertarget.DefaultInFlight, Awaiting: brokertarget.DefaultAwaiting}
	if e.InFlight != nil {
		b.InFlight = *e.InFlight
	}
	if e.Awaiting != nil {
		b.Awaiting = *e.Awaiting
	}
	if e.Kind == "amqp" && b.VirtualHost == "" {
		b.VirtualHost = "/"
	}
	if b.Password, err = r.secret("password_file", e.PasswordFile); err != nil {
		return b, err
	}
	if b.Credentials, err = r.secret("credentials_file", e.CredentialsFile); err != nil {
		return b, err
	}
	if b.TLS, err = r.tls(&e.TLS); err != nil {
		return b, err
	}
	whole, err := json.Marshal(e)
	if err != nil {
		return b, err
	}
	r.note("settings", whole)
	b.Print = hex.EncodeToString(r.hash.Sum(nil))
	return b, nil
}

// note makes some of what was read part of the hash.
func (r *reader) note(what string, b []byte) {
	fmt.Fprintf(r.hash, "%s %d\n", what, len(b)) // a hash takes everything
	r.hash.Write(b)
}

// named reads a file that a field names.
func (r *reader) named(field, path string) ([]byte, error) {
	if !filepath.IsAbs(path) {
		path = filepath.Join(r.folder, path)
	}
	b, err := yamlfile.Bytes(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", field, err)
	}
	if len(bytes.TrimSpace(b)) == 0 {
		return nil, fmt.Errorf("%s: %s is empty", field, path)
	}
	r.note(field, b)
	return b, nil
}

// secret is the content of a file without the end of its last line; "" if no file is given.
func (r *reader) secret(field, path string) (string, error) {
	if path == "" {
		return "", nil
	}
	b, err := r.named(field, path)
	return strings.TrimRight(string(b), "\r\n"), err
}

// tls returns how a broker is reached by TLS; nil: it is not.
func (r *reader) tls(n *yaml.Node) (*tls.Config, error) {
	if n.Kind == 0 {
		return nil, nil
	}
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n.Kind != yaml.MappingNode {
		return nil, fmt.Errorf("tls: line %d: write tls: {} for the system's roots, or its fields", n.Line)
	}
	text, err := yaml.Marshal(n)
	if err != nil {
		return nil, fmt.Errorf("tls: %w", err)
	}
	r.note("tls", text)
	var e tlsEntry
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(&e); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("tls: %s", yamlfile.Plain(err))
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: e.ServerName}
	if e.CAFile != "" {
		pem, err := r.named("tls.ca_file", e.CAFile)
		if err != nil {
			return nil, err
		}
		if c.RootCAs = x509.NewCertPool(); !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("tls.ca_file: %s has no certificate in PEM", e.CAFile)
		}
	}
	if (e.CertFile == "") != (e.KeyFile == "") {
		return nil, errors.New("tls.cert_file: give it together with key_file, or neither")
	}
	if e.CertFile == "" {
		return c, nil
	}
	cert, err := r.named("tls.cert_file", e.CertFile)
	if err != nil {
		return nil, err
	}
	key, err := r.named("tls.key_file", e.KeyFile)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("tls.cert_file: %w", err)
	}
	c.Certificates = []tls.Certificate{pair}
	return c, nil
}

// kindsOf are the kinds that have a field which not all have.
var kindsOf = map[string][]string{"sasl": {"kafka"}, "virtual_host": {"amqp"}, "core": {"nats"},
	"credentials_file": {"nats"}, "database": {"redis"}, "max_length": {"redis"},
	"max_message": {"kafka", "amqp"}}

// saslMechanisms are those of Kafka.
var saslMechanisms = []string{"plain", "scram-sha-256", "scram-sha-512"}

// checkAddress never shows what may be a password.
func checkAddress(a string) error {
	if strings.Contains(a, "@") {
		return errors.New("it has a user or a password: use user and password_file")
	}
	host, port, err := net.SplitHostPort(a)
	if err != nil || host == "" || strings.ContainsAny(host, ", \t/\\") {
		return fmt.Errorf("%q is not host:port", a)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return fmt.Errorf("the port of %q is not between 1 and 65535", a)
	}
	return nil
}

func (e *entry) check() error {
	if !slices.Contains(delivery.BrokerKinds, e.Kind) {
		return fmt.Errorf("kind: %q is not one of %s", e.Kind, strings.Join(delivery.BrokerKinds, ", "))
	}
	given := map[string]bool{"sasl": e.SASL != "", "virtual_host": e.VirtualHost != "", "core": e.Core,
		"credentials_file": e.CredentialsFile != "", "database": e.Database != 0, "max_length": e.MaxLength != 0,
		"max_message": e.MaxMessage != 0}
	for _, field := range slices.Sorted(maps.Keys(given)) {
		if given[field] && !slices.Contains(kindsOf[field], e.Kind) {
			return fmt.Errorf("%s: only brokers of kind %s have it", field, strings.Join(kindsOf[field], ", "))
		}
	}
	if len(e.Addresses) == 0 {
		return errors.New("addresses: there is none; give a list of host:port")
	}
	for i, a := range e.Addresses {
		if err := checkAddress(a); err != nil {
			return fmt.Errorf("addresses[%d]: %w", i, err)
		}
	}
	switch {
	case e.InFlight != nil && (*e.InFlight < 1 || *e.InFlight > brokertarget.MaxInFlight):
		return fmt.Errorf("in_flight: %d is not between 1 and %d", *e.InFlight, brokertarget.MaxInFlight)
	case e.Awaiting != nil && (*e.Awaiting < 1 || *e.Awaiting > brokertarget.MaxAwaiting):
		return fmt.Errorf("awaiting: %d is not between 1 and %d", *e.Awaiting, brokertarget.MaxAwaiting)
	case e.User == "" && e.PasswordFile != "" && e.Kind != "redis":
		return errors.New("password_file: there is no user")
	case e.User != "" && e.PasswordFile == "":
		return errors.New("password_file: it is missing; there is a user")
	case e.User != "" && e.CredentialsFile != "":
		return errors.New("credentials_file: there is a user, too; give one of them")
	case e.Kind == "kafka" && (e.User != "") != (e.SASL != ""):
		return errors.New("sasl: give it together with user, or neither")
	case e.SASL != "" && !slices.Contains(saslMechanisms, e.SASL):
		return fmt.Errorf("sasl: %q is not one of %s", e.SASL, strings.Join(saslMechanisms, ", "))
	case e.Database < 0:
		return fmt.Errorf("database: %d is negative", e.Database)
	case e.MaxMessage != 0 && (e.MaxMessage < leastMessage || e.MaxMessage > mostMessage):
		return fmt.Errorf("max_message: %d is not between %d and %d bytes", e.MaxMessage, leastMessage, mostMessage)
	case e.MaxLength < 0:
		return fmt.Errorf("max_length: %d is negative", e.MaxLength)
	}
	return nil
}
