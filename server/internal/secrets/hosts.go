package secrets

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"
)

// host is where a secret may be sent.
type host struct {
	name   string // in lower case, without a dot at its end; with suffix, what follows the star: .example.com
	suffix bool
	port   string // "": the default one of the URL's scheme
}

// parseHost reads host, host:port, *.suffix or *.suffix:port. An address of IPv6 is in brackets.
func parseHost(text string) (host, error) {
	h := host{name: text}
	if strings.Contains(text, "://") || strings.ContainsAny(text, "/@ ") {
		return h, fmt.Errorf("%q is no host; write for example api.example.com, *.example.com or api.example.com:8443", text)
	}
	if name, port, err := net.SplitHostPort(text); err == nil {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return h, fmt.Errorf("the port of %q is not between 1 and 65535", text)
		}
		h.name, h.port = name, port
	} else {
		h.name = strings.TrimSuffix(strings.TrimPrefix(text, "["), "]")
	}
	if h.name == "*" {
		return h, errors.New(`"*" would have the secret sent anywhere; name the hosts, or a suffix such as *.example.com`)
	}
	if rest, ok := strings.CutPrefix(h.name, "*"); ok {
		h.name, h.suffix = rest, true
	}
	h.name = canonical(h.name)
	for label := range strings.SplitSeq(strings.TrimPrefix(h.name, "."), ".") {
		_, err := netip.ParseAddr(h.name)
		if err != nil && (label == "" || strings.ContainsFunc(label, notOfHost)) {
			return h, fmt.Errorf("%q is no host; write names that are not ASCII as their DNS has them (xn--…)", text)
		}
	}
	if h.suffix != strings.HasPrefix(h.name, ".") {
		return h, fmt.Errorf("%q: a star is followed by a dot, as in *.example.com", text)
	}
	return h, nil
}

func notOfHost(r rune) bool {
	return !('a' <= r && r <= 'z' || '0' <= r && r <= '9' || r == '-' || r == '_')
}

// canonical is the one form of a host that has several.
func canonical(name string) string {
	if addr, err := netip.ParseAddr(name); err == nil {
		return addr.Unmap().String()
	}
	return strings.TrimSuffix(strings.Map(lower, name), ".")
}

// lower is lower case for letters of ASCII. Unicode has others, of which some become letters of ASCII, and
// net/http maps them in another way.
func lower(r rune) rune {
	if 'A' <= r && r <= 'Z' {
		return r + ('a' - 'A')
	}
	return r
}

// isASCII reports whether a host is what it will be when it is connected to.
func isASCII(name string) bool {
	return !strings.ContainsFunc(name, func(r rune) bool { return r >= utf8.RuneSelf })
}

// defaultPorts are those of the schemes of HTTP targets.
var defaultPorts = map[string]string{"http": "80", "https": "443"}

// allows reports whether a URL is at the host. A name that is not ASCII is at none: net/http makes another
// one of it.
func (h host) allows(u *url.URL) bool {
	standard := defaultPorts[u.Scheme]
	if cmp.Or(u.Port(), standard) != cmp.Or(h.port, standard) {
		return false
	}
	if !isASCII(u.Hostname()) {
		return false
	}
	name := canonical(u.Hostname())
	if !h.suffix {
		return name == h.name
	}
	return strings.HasSuffix(name, h.name) && len(name) > len(h.name)
}
