package secrets

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/internal/secretref"
	"github.com/carillonhq/carillon/server/internal/yamlfile"
)

// Limits.
const (
	MaxSecrets = 1000
	MaxValue   = 8 << 10 // bytes of what the operator gives
)

// Config is one secret, as the file has it.
type Config struct {
	Print string // tells one state of the secret from another

	namespaces []string // patterns
	hosts      []host
	plain      bool                      // it may be sent by http
	value      string                    // of the header, or of its part after the scheme
	whole      bool                      // value has its scheme already: it is for Authorization alone
	tokens     *clientcredentials.Config // nil: value is the secret
}

// file is the whole file.
type file struct {
	Secrets map[string]*entry `yaml:"secrets"`
}

// entry is one secret as the file has it: exactly one of File, Env, Basic and OAuth2 is given.
type entry struct {
	File       string       `yaml:"file"`
	Env        string       `yaml:"env"`
	Basic      *basicEntry  `yaml:"basic"`
	OAuth2     *oauth2Entry `yaml:"oauth2"`
	Namespaces []string     `yaml:"namespaces"`
	Hosts      []string     `yaml:"hosts"`
	AllowHTTP  bool         `yaml:"allow_http"`
}

// source is where a value is.
type source struct {
	File string `yaml:"file"`
	Env  string `yaml:"env"`
}

type basicEntry struct {
	User     string `yaml:"user"`
	Password source `yaml:"password"`
}

type oauth2Entry struct {
	TokenURL     string   `yaml:"token_url"`
	ClientID     string   `yaml:"client_id"`
	ClientSecret source   `yaml:"client_secret"`
	ClientAuth   string   `yaml:"client_auth"`
	Scopes       []string `yaml:"scopes"`
	Audience     string   `yaml:"audience"`
}

// Read reads a file and the files that it names, which are relative to its folder. An error names every
// secret and field at fault, and no value.
func Read(path string) (map[string]Config, error) {
	var f file
	if err := yamlfile.Read(path, &f); err != nil {
		return nil, err
	}
	if len(f.Secrets) > MaxSecrets {
		return nil, fmt.Errorf("%s: there are %d secrets, more than %d", path, len(f.Secrets), MaxSecrets)
	}
	all := make(map[string]Config, len(f.Secrets))
	var faults []error
	for _, name := range slices.Sorted(maps.Keys(f.Secrets)) {
		r := reader{folder: filepath.Dir(path), hash: sha256.New()}
		c, err := r.secret(name, f.Secrets[name])
		if err != nil {
			faults = append(faults, fmt.Errorf("%s: secrets.%s.%w", path, name, err))
			continue
		}
		all[name] = c
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	return all, nil
}

// Prints are what tells one state of a file from another.
func Prints(all map[string]Config) map[string]string {
	prints := make(map[string]string, len(all))
	for name, c := range all {
		prints[name] = c.Print
	}
	return prints
}

// reader reads one secret.
type reader struct {
	folder string
	hash   hash.Hash // of what was read
}

// secret returns a secret. An error begins with the field at fault.
func (r *reader) secret(name string, e *entry) (c Config, err error) {
	if err := secretref.CheckName(name); err != nil {
		return c, fmt.Errorf("name: %w", err)
	}
	if e == nil {
		return c, errors.New("file: it is missing; give file, env, basic or oauth2")
	}
	c.plain = e.AllowHTTP
	if c.namespaces, err = namespaces(e.Namespaces); err != nil {
		return c, err
	}
	if c.hosts, err = hosts(e.Hosts); err != nil {
		return c, err
	}
	if err := r.material(e, &c); err != nil {
		return c, err
	}
	whole, err := json.Marshal(e)
	if err != nil {
		return c, err
	}
	r.note(string(whole))
	c.Print = hex.EncodeToString(r.hash.Sum(nil))
	return c, nil
}

// material reads what the secret is.
func (r *reader) material(e *entry, c *Config) (err error) {
	given := 0
	for _, is := range []bool{e.File != "", e.Env != "", e.Basic != nil, e.OAuth2 != nil} {
		if is {
			given++
		}
	}
	switch {
	case given == 0:
		return errors.New("file: it is missing; give file, env, basic or oauth2")
	case given > 1:
		return errors.New("file: give exactly one of file, env, basic and oauth2")
	case e.Basic != nil:
		c.value, err = r.basic(e.Basic)
		c.whole = true
	case e.OAuth2 != nil:
		c.tokens, err = r.oauth2(e.OAuth2, e.AllowHTTP)
		c.whole = true
	default:
		c.value, err = r.value("", source{File: e.File, Env: e.Env})
	}
	return err
}

func namespaces(patterns []string) ([]string, error) {
	if len(patterns) == 0 {
		return nil, errors.New(`namespaces: it is missing; name those whose jobs may use the secret; "*" is all of them`)
	}
	for i, p := range patterns {
		name, all := strings.CutSuffix(p, "*")
		if all && name == "" {
			continue
		}
		if err := carillon.ValidateNamespace(name); err != nil {
			return nil, fmt.Errorf("namespaces[%d]: %w", i, carillon.WithField(err, ""))
		}
	}
	return patterns, nil
}

func hosts(texts []string) ([]host, error) {
	if len(texts) == 0 {
		return nil, errors.New("hosts: it is missing; name those that the secret may be sent to")
	}
	all := make([]host, len(texts))
	for i, text := range texts {
		var err error
		if all[i], err = parseHost(text); err != nil {
			return nil, fmt.Errorf("hosts[%d]: %w", i, err)
		}
	}
	return all, nil
}

// basic returns the value of the header Authorization (RFC 7617).
func (r *reader) basic(e *basicEntry) (string, error) {
	switch {
	case e.User == "":
		return "", errors.New("basic.user: it is missing")
	case strings.Contains(e.User, ":"):
		return "", errors.New("basic.user: it must not have a colon, which ends a user's name")
	case strings.ContainsFunc(e.User, isControl):
		return "", errors.New("basic.user: it has a control character")
	}
	password, err := r.value("basic.password", e.Password)
	if err != nil {
		return "", err
	}
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(e.User+":"+password)), nil
}

// clientAuths are the ways in which a client proves who it is at a token endpoint (RFC 6749, 2.3.1).
var clientAuths = map[string]oauth2.AuthStyle{
	"": oauth2.AuthStyleInHeader, "header": oauth2.AuthStyleInHeader, "body": oauth2.AuthStyleInParams,
}

func (r *reader) oauth2(e *oauth2Entry, plain bool) (*clientcredentials.Config, error) {
	u, err := url.Parse(e.TokenURL)
	switch style, known := clientAuths[e.ClientAuth]; {
	case e.TokenURL == "":
		return nil, errors.New("oauth2.token_url: it is missing")
	case err != nil || u.Hostname() == "" || u.User != nil || u.Fragment != "" ||
		(u.Scheme != "https" && u.Scheme != "http"):
		return nil, errors.New("oauth2.token_url: it is not a URL such as https://login.example.com/oauth2/token")
	case u.Scheme == "http" && !plain:
		return nil, errors.New("oauth2.token_url: it begins with http://, which hides nothing; use https://, or say allow_http")
	case e.ClientID == "":
		return nil, errors.New("oauth2.client_id: it is missing")
	case !known:
		return nil, fmt.Errorf("oauth2.client_auth: %q is neither header nor body", e.ClientAuth)
	default:
		c := &clientcredentials.Config{ClientID: e.ClientID, TokenURL: e.TokenURL, Scopes: e.Scopes,
			AuthStyle: style}
		if e.Audience != "" {
			c.EndpointParams = url.Values{"audience": {e.Audience}}
		}
		c.ClientSecret, err = r.value("oauth2.client_secret", e.ClientSecret)
		return c, err
	}
}

// value reads a value; field is its name, "" if it is the entry itself.
func (r *reader) value(field string, from source) (string, error) {
	raw := field == "" // it is sent as it is
	named := func(part string) string { return strings.TrimPrefix(field+"."+part, ".") }
	var text []byte
	switch {
	case from.File == "" && from.Env == "":
		return "", fmt.Errorf("%s: it is missing; give file or env", field)
	case from.File != "" && from.Env != "":
		return "", fmt.Errorf("%s: give file or env, not both", field)
	case from.Env != "":
		field = named("env")
		set, ok := os.LookupEnv(from.Env)
		if !ok {
			return "", fmt.Errorf("%s: the environment has no %s", field, from.Env)
		}
		text = []byte(set)
	default:
		field = named("file")
		path := from.File
		if !filepath.IsAbs(path) {
			path = filepath.Join(r.folder, path)
		}
		var err error
		if text, err = yamlfile.Bytes(path); err != nil {
			return "", fmt.Errorf("%s: %w", field, err)
		}
	}
	text = bytes.TrimRight(text, "\r\n")
	bad := isControl
	if raw {
		bad = isNotHeader
	}
	if why := unusable(string(text), bad); why != "" {
		return "", fmt.Errorf("%s: %s", field, why)
	}
	r.note(string(text))
	return string(text), nil
}

// unusable returns why a text is no secret; "" if it is one. It does not show the text.
func unusable(text string, bad func(rune) bool) string {
	switch {
	case text == "":
		return "it is empty"
	case len(text) > MaxValue:
		return fmt.Sprintf("it has more than %d bytes", MaxValue)
	case !utf8.ValidString(text) || strings.ContainsFunc(text, bad):
		return "it has a line break or another character that a header cannot hold"
	}
	return ""
}

func isControl(r rune) bool { return r < ' ' || r == 0x7f }

// isNotHeader reports whether r cannot be sent in a header as it is.
func isNotHeader(r rune) bool { return r < ' ' || r > '~' }

// note makes some of what was read part of the hash.
func (r *reader) note(text string) {
	fmt.Fprintf(r.hash, "%d %s\n", len(text), text) // a hash takes everything
}
