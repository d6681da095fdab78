package object

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/carillonhq/carillon/server/store/storeurl"
)

// URL is what the URLs of buckets have in common: SCHEME://BUCKET[/PREFIX][?name=value&…].
type URL struct {
	Bucket     string
	Parameters url.Values
	// Options has what commit-every, records and the path say.
	Options Options

	scheme string
}

// ParseURL reads a URL of a scheme that has some parameters besides commit-every and records.
func ParseURL(text, scheme string, parameters ...string) (URL, error) {
	wrong := func(format string, args ...any) (URL, error) {
		return URL{}, fmt.Errorf("store: %s: %s", scheme, fmt.Sprintf(format, args...))
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme != scheme || u.Host == "" || u.Port() != "" || u.Fragment != "":
		return wrong("a URL of a bucket is %s://BUCKET/PREFIX?name=value", scheme)
	case u.User != nil:
		return wrong("a URL of a bucket has no user: credentials come from the environment")
	}
	values, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return wrong("the parameters of the URL: %v", err)
	}
	known := append([]string{"commit-every", "records"}, parameters...)
	slices.Sort(known)
	for name := range values {
		if !slices.Contains(known, name) {
			return wrong("a URL of a bucket has no parameter %q; there are %s", name, strings.Join(known, ", "))
		}
	}
	out := URL{Bucket: u.Host, Parameters: values, scheme: scheme,
		Options: Options{Where: scheme + "://" + u.Host + u.Path, Prefix: strings.Trim(u.Path, "/")}}
	if text := values.Get("commit-every"); values.Has("commit-every") {
		if out.Options.Every, err = time.ParseDuration(text); err != nil || out.Options.Every < time.Millisecond ||
			out.Options.Every > 10*time.Second {
			return wrong("commit-every is %q: must be a duration from 1ms to 10s, such as 250ms", text)
		}
	}
	if text := values.Get("records"); values.Has("records") {
		if out.Options.Records, err = strconv.Atoi(text); err != nil || out.Options.Records < 1 {
			return wrong("records is %q: must be a whole number above 0", text)
		}
	}
	return out, nil
}

// Endpoint reads the parameter endpoint, the URL of a server; empty if there is none. It has no slash at its
// end.
func (u *URL) Endpoint() (string, error) {
	value := u.Parameters.Get("endpoint")
	if !u.Parameters.Has("endpoint") {
		return "", nil
	}
	at, err := url.Parse(value)
	if err != nil || at.Host == "" || at.Scheme != "http" && at.Scheme != "https" {
		return "", fmt.Errorf("store: %s: endpoint is %q: must be a URL, such as https://storage.example.com",
			u.scheme, value)
	}
	return strings.TrimSuffix(value, "/"), nil
}

// unverified is that of a [store.Driver]: without an endpoint, or by HTTPS, the clouds' libraries verify who
// is there.
func unverified(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return ""
	}
	at, err := url.Parse(u.Query().Get("endpoint"))
	if err != nil || at.Scheme != "http" {
		return ""
	}
	return storeurl.Unverified(nil, at.Host)
}

// YesNo reads a parameter whose value is yes or no; no if there is none.
func (u *URL) YesNo(name string) (bool, error) {
	value := u.Parameters.Get(name)
	if u.Parameters.Has(name) && value != "yes" && value != "no" {
		return false, fmt.Errorf("store: %s: %s is %q: must be yes or no", u.scheme, name, value)
	}
	return value == "yes", nil
}
