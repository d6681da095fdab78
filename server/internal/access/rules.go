package access

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"
	"unicode"

	"github.com/carillonhq/carillon"
)

// Rule grants something to callers by what they show. Exactly one of Claim, SPIFFE, DNS and CN is given.
type Rule struct {
	// Claim is the name of a claim of a JWT, or the names that lead to one inside of others, and Value what it
	// must be, or have among its values.
	Claim []string
	Value string
	// SPIFFE is the id in a client's certificate; "/*" at its end stands for all below.
	SPIFFE string
	// DNS is a DNS name among the certificate's alternative names.
	DNS string
	// CN is the common name of the certificate's subject.
	CN string

	Grants []carillon.AccessGrant
}

// Token is what a JWT says that was found right.
type Token struct {
	Issuer, Subject string
	Expires         time.Time
	Claims          map[string]any // as package json decodes them
}

// Certificate is what a client's certificate says. It was verified.
type Certificate struct {
	SPIFFE  string // its id; "": it has none
	DNS     []string
	CN      string
	Subject string // the whole of it, as RFC 2253 has it
	Expires time.Time
	Foreign bool // no authority of clients has signed it: it has no rule
}

// Rulebook has the rules that are in force. Its zero value has none. Any goroutine may use it.
type Rulebook struct{ now atomic.Pointer[edition] }

// edition are rules that were in force at a time.
type edition struct {
	bond
	rules []Rule
}

var (
	// Who has a new token calls again with that, and who has not is refused then.
	errToken = carillon.Errorf(carillon.Unavailable, "", "the token has expired meanwhile: call again, with a new one")
	errRules = carillon.Errorf(carillon.Unavailable, "", "the rules by which callers are granted something have changed: call again")
)

// Replace puts rules in force. What callers have begun by those before ends: they call again, and get what
// they are granted now.
func (b *Rulebook) Replace(rules []Rule) {
	if was := b.now.Swap(&edition{bond: bond{why: errRules}, rules: rules}); was != nil {
		was.end()
	}
}

// Len returns how many rules there are.
func (b *Rulebook) Len() int { return len(b.load().rules) }

func (b *Rulebook) load() *edition {
	if b != nil {
		if e := b.now.Load(); e != nil {
			return e
		}
	}
	return &edition{}
}

// ofToken returns the principal of a token. One without a rule is granted nothing.
func (b *Rulebook) ofToken(t *Token) *Principal {
	e := b.load()
	p := &Principal{Kind: KindToken, ID: t.Issuer + " " + t.Subject, Expires: t.Expires, from: &e.bond}
	for i := range e.rules {
		if r := &e.rules[i]; len(r.Claim) > 0 && t.has(r.Claim, r.Value) {
			p.Grants = append(p.Grants, r.Grants...)
		}
	}
	return p
}

// ofCertificate returns the principal of a certificate; nil: it has no rule.
func (b *Rulebook) ofCertificate(c *Certificate) *Principal {
	if c.Foreign {
		return nil
	}
	e := b.load()
	p := &Principal{Kind: KindCertificate, ID: c.id(), Expires: c.Expires, from: &e.bond}
	ruled := false
	for i := range e.rules {
		if r := &e.rules[i]; r.names(c) {
			ruled = true
			p.Grants = append(p.Grants, r.Grants...)
		}
	}
	if !ruled {
		return nil
	}
	return p
}

// names reports whether a rule is for a certificate.
func (r *Rule) names(c *Certificate) bool {
	switch {
	case r.SPIFFE != "":
		below, open := strings.CutSuffix(r.SPIFFE, "*")
		within := open && strings.HasPrefix(c.SPIFFE, below) && len(c.SPIFFE) > len(below)
		return within || c.SPIFFE == r.SPIFFE
	case r.DNS != "":
		return slices.ContainsFunc(c.DNS, func(d string) bool { return strings.EqualFold(d, r.DNS) })
	case r.CN != "":
		return c.CN == r.CN
	}
	return false
}

// maxID is how many bytes an id of a certificate has at most.
const maxID = 512

// id names whom a certificate is about, whichever of its names have rules: so two certificates that one rule
// is for are two callers, and one is the same when the rules change. It is the SPIFFE id, or the subject, or
// the first DNS name of a certificate without both. It can be shown on a line.
func (c *Certificate) id() string {
	id := cmp.Or(c.SPIFFE, c.Subject)
	if id == "" && len(c.DNS) > 0 {
		id = c.DNS[0]
	}
	id = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return unicode.ReplacementChar
		}
		return r
	}, id)
	return strings.ToValidUTF8(id[:min(len(id), maxID)], "")
}

// has reports whether a claim is a value, or has it among its values. Only texts, truth values and lists of
// texts can be one: how a number is written is not certain.
func (t *Token) has(claim []string, value string) bool {
	var v any = t.Claims
	for _, name := range claim {
		inside, ok := v.(map[string]any)
		if !ok {
			return false
		}
		v = inside[name]
	}
	switch v := v.(type) {
	case string:
		// a scope is a list with spaces between (RFC 9068)
		return v == value || len(claim) == 1 && claim[0] == "scope" && slices.Contains(strings.Fields(v), value)
	case bool:
		return v == (value == "true") && (value == "true" || value == "false")
	case []any:
		return slices.ContainsFunc(v, func(one any) bool { text, ok := one.(string); return ok && text == value })
	}
	return false
}

// maxShown is how many names of a certificate an error has.
const maxShown = 5

// String describes what a certificate says.
func (c *Certificate) String() string {
	if c.Foreign {
		return "not signed by an authority of clients"
	}
	names := slices.Clone(c.DNS)
	if c.SPIFFE != "" {
		names = append([]string{c.SPIFFE}, names...)
	}
	if c.CN != "" {
		names = append(names, "CN="+c.CN)
	}
	if len(names) == 0 {
		return "no name"
	}
	more := ""
	if n := len(names) - maxShown; n > 0 {
		names, more = names[:maxShown], fmt.Sprintf(" and %d more", n)
	}
	for i := range names {
		names[i] = fmt.Sprintf("%.200q", names[i])
	}
	return strings.Join(names, ", ") + more
}
