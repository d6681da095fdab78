// Package storeurl reads the URLs of stores on servers:
// scheme://[user:password@]host[:port][,host[:port]…][/path][?name=value&…].
package storeurl

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// URL is what a URL says. Its errors name the server, such as "Redis", and never repeat the password.
type URL struct {
	Scheme     string
	Username   string
	Password   string
	Path       string // without its slash
	Parameters url.Values
	TLS        *tls.Config // nil if the URL does not ask for TLS

	server string
	secure string // the scheme with TLS
	hosts  string
}

// Parse reads a URL whose scheme is plain or, for TLS, secure.
func Parse(text, server, plain, secure string) (URL, error) {
	scheme, rest, _ := strings.Cut(text, "://")
	u := URL{Scheme: scheme, server: server, secure: secure}
	switch scheme {
	case plain:
	case secure:
		u.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	default:
		return u, fmt.Errorf("store: a URL of %s begins with %s:// or %s://", server, plain, secure)
	}
	// before all else: whatever a password is made of, it is not repeated
	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		if err := u.credentials(rest[:at]); err != nil {
			return u, err
		}
		rest = rest[at+1:]
	}
	rest, query, _ := strings.Cut(rest, "?")
	u.hosts, u.Path, _ = strings.Cut(rest, "/")
	var err error
	if u.Parameters, err = url.ParseQuery(query); err != nil {
		return u, fmt.Errorf("store: the parameters of the URL of %s: %w", server, err)
	}
	return u, nil
}

// credentials reads "user:password".
func (u *URL) credentials(text string) (err error) {
	user, password, _ := strings.Cut(text, ":")
	if strings.ContainsAny(text, "/?#") {
		return fmt.Errorf("store: user or password of the URL of %s are not well encoded: write / as %%2F, ? as %%3F and # as %%23, "+
			"and no @ behind the address", u.server)
	}
	if u.Username, err = url.PathUnescape(user); err == nil {
		u.Password, err = url.PathUnescape(password)
	}
	if err != nil {
		return fmt.Errorf("store: user or password of the URL of %s are not well encoded: write a percent sign as %%25", u.server)
	}
	return nil
}

// Both refuses a user without a password, and a password without a user.
func (u *URL) Both() error {
	if (u.Username == "") != (u.Password == "") {
		return fmt.Errorf("store: the URL of %s has a user without a password, or a password without a user", u.server)
	}
	return nil
}

// NoPath refuses a path.
func (u *URL) NoPath() error {
	if u.Path != "" {
		return fmt.Errorf("store: %q is no address of %s: write host:port, and commas between several", u.hosts+"/"+u.Path, u.server)
	}
	return nil
}

// Addresses are "host:port" of each host; usual is the port of those that have none.
func (u *URL) Addresses(usual string) (out []string, err error) {
	for address := range strings.SplitSeq(u.hosts, ",") {
		host, port, err := net.SplitHostPort(address)
		if err != nil {
			host, port, err = net.SplitHostPort(address + ":" + usual)
		}
		if n, notPort := strconv.ParseUint(port, 10, 16); err != nil || notPort != nil || n == 0 || host == "" {
			return nil, fmt.Errorf("store: %q is no address of %s: write host:port, and commas between several", address, u.server)
		}
		out = append(out, net.JoinHostPort(host, port))
	}
	return out, nil
}

// Positive reads a parameter whose value is a whole number above 0; it is 0 if there is none.
func (u *URL) Positive(name string) (int64, error) {
	value := u.Parameters.Get(name)
	if value == "" && !u.Parameters.Has(name) {
		return 0, nil
	}
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("store: %s is %q in the URL of %s: must be a whole number above 0", name, value, u.server)
	}
	return n, nil
}

// YesNo reads a parameter whose value is yes or no; it is usual if there is none.
func (u *URL) YesNo(name string, usual bool) (bool, error) {
	value := u.Parameters.Get(name)
	switch {
	case !u.Parameters.Has(name):
		return usual, nil
	case value != "yes" && value != "no":
		return false, fmt.Errorf("store: %s is %q in the URL of %s: must be yes or no", name, value, u.server)
	}
	return value == "yes", nil
}

// Known refuses parameters that are not among those that there are, and reads the files that sslrootcert,
// sslcert and sslkey name into the URL's TLS.
func (u *URL) Known(names ...string) error {
	all := append(slices.Clip(names), "sslrootcert", "sslcert", "sslkey")
	known := map[string]bool{}
	for _, name := range all {
		known[name] = true
	}
	for name := range u.Parameters {
		if !known[name] {
			return fmt.Errorf("store: a URL of %s has no parameter %q; there are %s and %s", u.server, name,
				strings.Join(all[:len(all)-1], ", "), all[len(all)-1])
		}
	}
	f := Files{u.Parameters.Get("sslrootcert"), u.Parameters.Get("sslcert"), u.Parameters.Get("sslkey")}
	return f.Read(u.TLS, u.server, u.secure)
}
